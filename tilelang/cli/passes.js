for (const section of document.querySelectorAll('.columns')) {
  const select = section.querySelector('select');
  const passes = [...section.querySelectorAll('.pass')];
  let marked = '';

  const mark = () => {
    for (const line of section.querySelectorAll('.mark')) line.classList.remove('mark');
    if (!marked) return;
    for (const column of section.querySelectorAll('.code')) {
      let first = null;
      for (const line of column.querySelectorAll('div[data-at]')) {
        if (line.dataset.at !== marked) continue;
        line.classList.add('mark');
        if (!first && line.offsetParent) first = line;
      }
      if (!first) continue;
      const { top } = first.getBoundingClientRect();
      const box = column.getBoundingClientRect();
      if (top < box.top || top > box.bottom - 20) column.scrollTop += top - box.top - 60;
    }
  };
  const show = (index) => {
    passes.forEach((each, i) => { each.hidden = i !== index; });
    select.selectedIndex = index;
    mark();
  };
  section.addEventListener('click', (event) => {
    const line = event.target.closest('div[data-at]');
    if (!line || !line.dataset.at) return;
    marked = line.dataset.at === marked ? '' : line.dataset.at;
    mark();
  });
  select.addEventListener('change', () => show(select.selectedIndex));
  document.addEventListener('keydown', (event) => {
    const step = { j: 1, k: -1 }[event.key] || 0;
    const next = select.selectedIndex + step;
    if (step && next >= 0 && next < passes.length) show(next);
  });
  show(0);
}
