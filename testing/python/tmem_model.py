"""A scalar model of tensor memory, written from the PTX ISA's formulas alone.

Memory is an array of 128 lanes x 512 columns of 32-bit cells. Nothing here calls the library.
"""

import numpy as np

LANES, COLUMNS = 128, 512


def atom_cell(shape, t, r, half_offset=0):
    """(lane, column) of register r of thread t, relative to the instruction's address."""
    return {
        "32x32b": (t, r),
        "16x64b": ((t >> 2) + 8 * (t & 1), ((t >> 1) & 1) + 2 * r),
        "16x128b": ((t >> 2) + 8 * (r & 1), (t & 3) + 4 * (r >> 1)),
        "16x256b": ((t >> 2) + 8 * ((r >> 1) & 1), 2 * (t & 3) + (r & 1) + 8 * (r >> 2)),
        "16x32bx2": (t % 16, r + half_offset * (t >= 16)),
    }[shape]


#: shape: (registers, columns) per repeat, largest repeat, lanes.
ATOMS = {
    "32x32b": (1, 1, 128, 32),
    "16x64b": (1, 2, 128, 16),
    "16x128b": (2, 4, 64, 16),
    "16x256b": (4, 8, 32, 16),
    "16x32bx2": (1, 1, 128, 16),
}


def accumulator_place(m_size, n_size, m, n, cta_group=1, ws=False, align=0):
    """(CTA, lane, column) of D's element (m, n), one element a cell."""
    half, quarter = n_size // 2, n_size // 4
    if cta_group == 2 and m_size == 256:
        return m // 128, m % 128, n  # A
    if cta_group == 2:
        return m // 64, m % 64 + 64 * (n >= half), n % half  # B
    if m_size == 128:
        return 0, m, n  # D
    if m_size == 64 and ws:
        return 0, m + 64 * (n >= half), n % half  # E
    if m_size == 64:
        return 0, 32 * (m // 16) + m % 16 + align, n  # F
    return 0, m + 32 * (n // quarter), n % quarter  # G


def operand_places(m_size, bits, m, k, cta_group=1, ws=False, align=0):
    """Every (CTA, lane, column, bit) from which the hardware reads A's element (m, k)."""
    column, bit = k * bits // 32, k * bits % 32
    if cta_group == 2 and m_size == 256:
        places = [(m // 128, m % 128)]
    elif cta_group == 2:
        places = [(m // 64, m % 64), (m // 64, m % 64 + 64)]
    elif m_size == 128:
        places = [(0, m)]
    elif m_size == 64 and ws:
        places = [(0, m), (0, m + 64)]
    elif m_size == 64:
        places = [(0, 32 * (m // 16) + m % 16 + align)]
    else:
        places = [(0, m + 32 * copy) for copy in range(4)]
    return [(cta, lane, column, bit) for cta, lane in places]


def _accesses(plan, buffer_column):
    """(lane, column, thread, register) of every cell that a plan touches, as arrays."""
    found = []
    for warp in plan.warps:
        for step in plan.instructions:
            t, r = np.meshgrid(np.arange(32), np.arange(step.num_regs), indexing="ij")
            lane, column = atom_cell_arrays(plan.name, t, r)
            if plan.pack:
                column = column * 2
            if plan.name == "16x32bx2":
                column = column + plan.half_offset * (t >= 16)
            lane = lane + 32 * (warp % 4) + step.lane
            column = column + buffer_column + plan.first_column + step.column
            column = column + (warp // 4 - plan.warps[0] // 4) * plan.warpgroup_columns
            found.append((lane, column, warp * 32 + t, r + step.reg))
    return [np.concatenate([f[i].ravel() for f in found]) for i in range(4)]


def atom_cell_arrays(shape, t, r):
    """``atom_cell`` for arrays, 16x32bx2 without its offset."""
    lane, column = atom_cell(shape, t, r)
    return np.broadcast_to(lane, t.shape), np.broadcast_to(column, t.shape)


def store(plan, memory, registers, buffer_column=0):
    """tcgen05.st: ``registers[thread, i]`` (uint32) into ``memory[lane, column]``."""
    lane, column, thread, reg = _accesses(plan, buffer_column)
    values = registers[thread, reg]
    if plan.pack:  # .unpack::16b
        memory[lane, column] = values & 0xFFFF
        memory[lane, column + 1] = values >> 16
    else:
        memory[lane, column] = values


def load(plan, memory, registers, buffer_column=0):
    """tcgen05.ld: the reverse of ``store``."""
    lane, column, thread, reg = _accesses(plan, buffer_column)
    if plan.pack:  # .pack::16b
        low, high = memory[lane, column] & 0xFFFF, memory[lane, column + 1] & 0xFFFF
        registers[thread, reg] = low | high << 16
    else:
        registers[thread, reg] = memory[lane, column]
