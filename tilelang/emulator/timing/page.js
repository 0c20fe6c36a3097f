// The timeline: drag to move, wheel to zoom, double click for all of it, click to fold a group.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("timeline"), tip = document.getElementById("tip");
  const row = 16, foot = 22;
  const slices = data.tracks.map(() => []);
  for (let i = 0; i < data.track.length; i++) slices[data.track[i]].push(i);
  const measured = canvas.getContext("2d");
  measured.font = "11px system-ui, sans-serif";
  const left = 24 + Math.max(106, ...data.groups.map(group => measured.measureText(group.name).width));
  const scheme = window.matchMedia("(prefers-color-scheme: dark)");
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name);

  // The rows as they stand now: a group of several has a heading, which shows its first track if
  // it is folded.
  function rows() {
    const found = [];
    for (const group of data.groups) {
      if (group.rows.length === 1 && !group.folded && !group.opened) {
        found.push({ text: group.name, own: slices[group.rows[0]] });
        continue;
      }
      const sign = group.folded ? "\u25b8 " : "\u25be ";
      found.push({ text: sign + group.name, own: group.folded ? slices[group.rows[0]] : [], group });
      if (!group.folded)
        for (const i of group.rows) found.push({ text: "   " + data.tracks[i], own: slices[i] });
    }
    return found;
  }
  let shown = rows();
  const all = [data.first, Math.max(data.last, data.first + 1)];
  let [begin, end] = all;

  function draw() {
    const height = shown.length * row + foot;
    const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    canvas.style.height = height + "px";
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.font = "11px system-ui, sans-serif";
    const scale = (width - left) / (end - begin);
    let boxes = 0;
    const ink = colour("--ink"), soft = colour("--soft");
    shown.forEach(({ text, own }, t) => {
      g.fillStyle = ink;
      g.fillText(text, 4, t * row + 12);
      let drawn = -1;
      for (const i of own) {
        if (data.end[i] < begin || data.begin[i] > end) continue;
        const x0 = left + Math.max(0, (data.begin[i] - begin) * scale);
        const x1 = left + Math.min(width - left, (data.end[i] - begin) * scale);
        // Slices of less than half a pixel that lie on one already drawn would not be seen.
        if (x1 - x0 < 0.5 && x1 < drawn) continue;
        drawn = x1 + 0.5;
        boxes++;
        g.fillStyle = data.colours[data.reason[i]];
        g.fillRect(x0, t * row + 2, Math.max(0.5, x1 - x0), row - 4);
        const name = data.names[data.name[i]];
        if (x1 - x0 > 6 * name.length) {
          g.fillStyle = "#000000";
          g.fillText(name, x0 + 3, t * row + 12);
        }
      }
    });
    g.fillStyle = soft;
    const label = i => Math.round(begin + (end - begin) * i / 8) + " cycles";
    for (let i = 0; i <= 8; i++) {
      const x = left + (width - left) * i / 8;
      g.fillRect(x, 0, 0.5, height - foot + 4);
      // The last one stands to the left of its line: that before it needs the room between.
      const room = (width - left) / 8 - (i === 7 ? g.measureText(label(8)).width : 0);
      if (i < 8 && g.measureText(label(i)).width + 6 > room) continue;
      g.textAlign = i === 8 ? "right" : "left";
      g.fillText(label(i), x, height - 6);
    }
    g.textAlign = "left";
    canvas.dataset.boxes = boxes;
    canvas.dataset.rows = shown.length;
  }

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const cycle = begin + (x - left) / (box.width - left) * (end - begin);
    const { own } = shown[Math.floor(y / row)] || { own: [] };
    return [cycle, own.findLast(i => data.begin[i] <= cycle && cycle < data.end[i])];
  }

  let dragged = null;
  canvas.addEventListener("mousedown", event => { dragged = event.clientX; });
  window.addEventListener("mouseup", () => { dragged = null; });
  canvas.addEventListener("mousemove", event => {
    if (dragged !== null) {
      const by = (dragged - event.clientX) / (canvas.clientWidth - left) * (end - begin);
      dragged = event.clientX;
      begin += by;
      end += by;
      draw();
    }
    const [cycle, i] = under(event);
    tip.textContent = i === undefined ? Math.round(cycle) + "" :
      `${data.names[data.name[i]]}: ${data.reasons[data.reason[i]]}, cycles ` +
      `${data.begin[i]} to ${data.end[i]} (${data.end[i] - data.begin[i]})`;
  });
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    const [cycle] = under(event), factor = Math.exp(event.deltaY * 0.002);
    begin = cycle - (cycle - begin) * factor;
    end = Math.max(begin + 4, cycle + (end - cycle) * factor);
    draw();
  }, { passive: false });
  canvas.addEventListener("click", event => {
    const box = canvas.getBoundingClientRect();
    const { group } = shown[Math.floor((event.clientY - box.top) / row)] || {};
    if (!group || event.clientX - box.left > left) return;
    group.folded = !group.folded;
    group.opened = true;  // one of a single track keeps its heading
    shown = rows();
    draw();
  });
  scheme.addEventListener("change", draw);
  canvas.addEventListener("dblclick", () => { [begin, end] = all; draw(); });
  window.addEventListener("resize", draw);
  draw();
})();
