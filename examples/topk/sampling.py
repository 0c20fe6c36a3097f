"""Samples a token from logits: temperature, top-k, then top-p, for each sequence its own.

Of the k largest logits, and all that equal the last of them, the fewest are kept that together have
the share p of their probability; of equal ones all. One of them is drawn by a random number of the
caller. A block goes through the logits of a sequence, which the L2 cache holds; nothing is sorted:
bounds are found by radix. Probabilities are added up as whole numbers, in units of 2 ** -30 of all
of them, so that sums do not depend on their order, and results not on the batch.

    python sampling.py [--rows 5] [--vocabulary 3000] [--k 50] [--p 0.9] [--temperature 0.8]
                       [--target sm_90a] [--device cpu]
"""

import functools

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.radix import find_least, in_order

#: of tables: sequences, tokens
SHAPES = ((64, 128256), (256, 128256), (16, 32000), (128, 152064), (1, 128256))

UNITS = float(1 << 30)


@T.macro
def sum_exponentials(X, row, temperature, most, total, chunk):
    """exp((X - ``most``) / temperature) / ``total`` are probabilities; both are of one element."""
    vocabulary = X.shape[1]
    x = T.alloc_fragment((chunk,), "float32")
    T.fill(most, -T.infinity("float32"))
    T.clear(total)
    for n in T.serial(T.ceildiv(vocabulary, chunk)):
        for i in T.Parallel(chunk):
            x[i] = X[row, T.min(n * chunk + i, vocabulary - 1)]
        T.reduce_max(x, most, dim=0, clear=False)
    for n in T.serial(T.ceildiv(vocabulary, chunk)):
        for i in T.Parallel(chunk):
            inside = n * chunk + i < vocabulary
            value = X[row, T.min(n * chunk + i, vocabulary - 1)]
            x[i] = T.if_then_else(inside, T.exp((value - most[0]) / temperature), 0.0)
        T.reduce_sum(x, total, dim=0, clear=False)


@T.macro
def sum_above(vocabulary, units, bits, least, total, chunk):
    """``total``, of one element, is the units of all tokens whose bits are ``least`` or more."""
    each = T.alloc_fragment((chunk,), "int32")
    T.clear(total)
    for n in T.serial(T.ceildiv(vocabulary, chunk)):
        for i in T.Parallel(chunk):
            at = T.min(n * chunk + i, vocabulary - 1)
            kept = (n * chunk + i < vocabulary) & (bits(at) >= least)
            each[i] = T.if_then_else(kept, units(at), 0)
        T.reduce_sum(each, total, dim=0, clear=False)


@T.macro
def draw(vocabulary, units, bits, least, wanted, Token, row, chunk):
    """Token[row] becomes the first kept token up to which there are more units than ``wanted``."""
    each, sums, place = (T.alloc_fragment((chunk,), "int32") for _ in range(3))
    first, part = (T.alloc_fragment((1,), "int32") for _ in range(2))
    before = T.alloc_var("int32", init=0)
    T.fill(first, vocabulary)
    for n in T.serial(T.ceildiv(vocabulary, chunk)):
        for i in T.Parallel(chunk):
            at = T.min(n * chunk + i, vocabulary - 1)
            kept = (n * chunk + i < vocabulary) & (bits(at) >= least)
            each[i] = T.if_then_else(kept, units(at), 0)
        T.cumsum(each, sums)
        for i in T.Parallel(chunk):
            passed = (each[i] > 0) & (before + sums[i] > wanted)
            place[i] = T.if_then_else(passed, n * chunk + i, vocabulary)
        T.reduce_min(place, first, dim=0, clear=False)
        T.reduce_sum(each, part, dim=0)
        before += part[0]
    for i in T.Parallel(1):
        Token[row + i] = first[0]


def sampling(rows, vocabulary, chunk=4096, threads=512):
    """Returns a prim_func of X (rows, vocabulary), Temperature, K, P, Random and Token (rows,).

    X, Temperature (positive), P (above 0, up to 1) and Random (from 0, below 1) are float32, K
    (from 1 to ``vocabulary``) and Token int32.
    """

    @T.prim_func
    def sampling(
        X: T.Tensor((rows, vocabulary), "float32"),
        Temperature: T.Tensor((rows,), "float32"),
        K: T.Tensor((rows,), "int32"),
        P: T.Tensor((rows,), "float32"),
        Random: T.Tensor((rows,), "float32"),
        Token: T.Tensor((rows,), "int32"),
    ):
        with T.Kernel(rows, threads=threads) as row:
            most, exponentials = (T.alloc_fragment((1,), "float32") for _ in range(2))
            least, bound = (T.alloc_var("uint32", init=0) for _ in range(2))
            missing, total = T.alloc_var("int32", init=0), T.alloc_fragment((1,), "int32")
            temperature = Temperature[row]
            sum_exponentials(X, row, temperature, most, exponentials, chunk)

            def load(i):
                return X[row, i]

            def bits(i):
                return in_order(X[row, i])

            def units(i):  # 0 of what has no probability
                share = T.exp((X[row, i] - most[0]) / temperature) / exponentials[0]
                return T.if_then_else(share > 0, T.max(T.cast(share * UNITS, "int32"), 1), 0)

            missing = K[row]
            find_least(vocabulary, load, lambda *_: 1, bound, missing, chunk)
            sum_above(vocabulary, units, bits, bound, total, chunk)

            def of_the_largest(i, own):
                return T.if_then_else(own >= bound, units(i), 0)

            missing = T.max(T.cast(T.ceil(T.cast(total[0], "float32") * P[row]), "int32"), 1)
            missing = T.min(missing, total[0])
            find_least(vocabulary, load, of_the_largest, least, missing, chunk)
            sum_above(vocabulary, units, bits, least, total, chunk)
            wanted = T.min(T.cast(T.cast(total[0], "float32") * Random[row], "int32"), total[0] - 1)
            draw(vocabulary, units, bits, least, wanted, Token, row, chunk)

    return sampling


def kept(x, temperature, k, p):
    """Returns the probabilities (rows, vocabulary) of what is kept, 0 of other tokens."""
    logits = x / temperature[:, None]
    ordered = logits.sort(1, descending=True).values
    least = ordered.gather(1, k[:, None].long() - 1)
    shares = logits.masked_fill(logits < least, -torch.inf).softmax(1)
    ordered = shares.sort(1, descending=True).values
    enough = (ordered.cumsum(1) - ordered < p[:, None]).sum(1, keepdim=True)
    shares = shares.masked_fill(shares < ordered.gather(1, enough - 1), 0)
    return shares / shares.sum(1, keepdim=True)


def check(example, inputs, random, token):
    """Raises an AssertionError where another token is drawn than the random number says."""
    shares = kept(*(z.double() for z in inputs))
    sums = shares.cumsum(1)
    at = token.long()[:, None]
    above, own = sums.gather(1, at)[:, 0], shares.gather(1, at)[:, 0]
    assert bool((own > 0).all()), "a token was drawn that is not kept"
    # The random number lies in the part of the token, but for the rounding of 2 ** -30 each.
    example.check("Sums", random.double().clamp(above - own, above), random.double(), 2**-12)


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("sequences", 5, 64),
        vocabulary=Option("tokens", 3000, 128256),
        k=Option("the largest logits, of which", 50),
        p=Option("the fewest with this share of their probability are kept", 0.9),
        temperature=Option("logits are divided by it", 0.8),
    )
    args = example.args
    example.require(args.k <= args.vocabulary, f"--k is {args.k}: give at most --vocabulary")
    example.require(0 < args.p <= 1, f"--p is {args.p}: give a share above 0, up to 1")
    warm = args.temperature > 0
    example.require(warm, f"--temperature is {args.temperature}: give a number above 0")

    def case(rows, vocabulary):
        kernel = example.compile(sampling(rows, vocabulary))
        x = example.normal(rows, vocabulary, scale=3.0)
        x[:, 6::7] = -torch.inf  # what a grammar forbids
        ones = torch.ones(rows, device=args.device)
        k = torch.full((rows,), args.k, dtype=torch.int32, device=args.device)
        k[-1] = vocabulary  # and one without top-k
        arguments = ones * args.temperature, k, ones * args.p
        random = torch.rand(rows).to(args.device)
        token = example.output(rows, dtype="int32")
        peers = {"torch": lambda: torch.multinomial(kept(x, *arguments), 1)}
        run = functools.partial(kernel, x, *arguments, random, token)
        return Case(run, peers, x.nbytes), (x, *arguments), random, token

    line, inputs, random, token = case(args.rows, args.vocabulary)
    line.run()
    example.verify(check, example, inputs, random, token)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
