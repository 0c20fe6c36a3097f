// Opens each page in a frame of each width and each theme, and writes what a reader would stumble
// over into the element "found", as JSON: a page wider than the screen, missing pictures, code that
// is cut off, and text that is hard to read.

const luminance = ([r, g, b]) => {
  const part = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const parts = colour => colour.match(/[\d.]+/g).map(Number);

// Returns the contrast of an element's text and background, by WCAG: 1 to 21.
function contrast(view, element) {
  let behind = element;
  while (behind && (parts(view.getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0)
    behind = behind.parentElement;
  const back = behind ? parts(view.getComputedStyle(behind).backgroundColor) : [255, 255, 255];
  const both = [luminance(parts(view.getComputedStyle(element).color)), luminance(back)];
  return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
}

// Returns the elements of article and menu that show text of their own.
function texts(document) {
  const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  const all = document.querySelectorAll("article *, .sidebar-drawer *");
  return [...all].filter(e => own(e) && e.getClientRects().length);
}

function flaws(document, width) {
  const found = [], wide = document.documentElement.scrollWidth;
  if (wide > width) found.push(`is ${wide} pixels wide`);
  for (const image of document.images)
    if (image.complete && !image.naturalWidth) found.push(`lacks the picture ${image.src}`);
  if (width < 1280) return found;
  for (const code of document.querySelectorAll("div.highlight pre")) {
    const columns = Math.max(...code.innerText.split("\n").map(line => line.length));
    if (columns <= 100 && code.scrollWidth > code.clientWidth + 1)
      found.push(`cuts code of ${columns} columns`);
  }
  const raw = document.body.innerText.match(/:(func|class|meth|mod|ref|doc):`/);
  if (raw) found.push(`shows ${raw[0]}`);
  return found;
}

function unreadable(view, document) {
  const least = new Map();
  for (const element of texts(document)) {
    const found = contrast(view, element);
    const key = `${element.tagName} ${element.className}`;
    if (found < 4.5 && !(least.get(key) <= found)) least.set(key, found);
  }
  return [...least].map(([what, ratio]) => `has text of contrast ${ratio.toFixed(1)}: ${what}`);
}

// Returns the drawings that are white on a dark page.
function glaring(view, document) {
  const drawings = [...document.querySelectorAll(".content p > img")].filter(i => /svg$/.test(i.src));
  const white = drawings.filter(i => !view.getComputedStyle(i).filter.includes("invert"));
  return white.map(image => `shows ${image.src} on white`);
}

function opened(page, width) {
  return new Promise(done => {
    const frame = document.createElement("iframe");
    frame.style.cssText = `width:${width}px;height:900px;border:0`;
    frame.onload = () => setTimeout(() => done(frame), 0);
    frame.src = page;
    document.body.append(frame);
  });
}

async function lookAt(pages, widths) {
  const found = [];
  for (const page of pages) for (const width of widths) {
    const frame = await opened(page, width);
    const inside = frame.contentDocument;
    found.push(...flaws(inside, width).map(flaw => `${page}, ${width} pixels: ${flaw}`));
    for (const theme of width < 1280 ? [] : ["light", "dark"]) {
      inside.body.dataset.theme = theme;
      const view = frame.contentWindow;
      const all = [...unreadable(view, inside), ...(theme === "dark" ? glaring(view, inside) : [])];
      found.push(...all.map(flaw => `${page}, ${theme}: ${flaw}`));
    }
    frame.remove();
  }
  document.getElementById("found").textContent = JSON.stringify(found);
}
