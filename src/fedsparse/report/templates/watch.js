"use strict";
// All that comes from sites is put in as text, never as markup.

const EVERY = 2000;
const WIDEST = 704, HEIGHT = 260, LEFT = 68, RIGHT = 12, TOP = 26, BOTTOM = 44;
const MOST_DOTS = 80;
const GOOD = new Set(["under way", "finished", "takes part"]);
const BAD = new Set(["failed", "takes no further part"]);
const drawn = new Map();
let latest = null;

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const make = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);
const shape = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const stateOf = (state) =>
  make("span", { class: `state ${GOOD.has(state) ? "good" : BAD.has(state) ? "bad" : ""}` }, state);
const counted = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

function readable(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
    const [digits, power] = value.toExponential(3).split("e");
    return `${Number(digits)}e${Number(power)}`;
  }
  return String(Number(value.toPrecision(4)));
}

function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (bytes >= 1000 && place < units.length - 1) { bytes /= 1000; place += 1; }
  return `${place ? bytes.toPrecision(3) : bytes} ${units[place]}`;
}

// About five round numbers between two.
function ticks(low, high, whole) {
  const raw = (high - low) / 4 || Math.abs(low) / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  let step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  if (whole) step = Math.max(1, Math.round(step));
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * step; at += 1) {
    found.push(at * step);
  }
  return found;
}

function powers(low, high) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const step = Math.ceil((last - first + 1) / 6);
  const factors = last - first < 2 ? [1, 2, 5] : [1];
  const found = [];
  for (let power = first - 1; power <= last; power += 1) {
    for (const factor of factors) {
      const at = factor * 10 ** power;
      if (at >= low * 0.999 && at <= high * 1.001 && (power - first) % step === 0) found.push(at);
    }
  }
  return found;
}

function chart(points) {
  const values = points.map(([, value]) => value);
  const width = Math.min(WIDEST, document.querySelector("main").clientWidth);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const isLog = low > 0 && high >= 10 * low;
  const measure = isLog ? Math.log10 : (value) => value;
  const room = (measure(high) - measure(low)) * 0.04 || Math.abs(measure(low)) * 0.1 || 1;
  const [bottom, top] = [measure(low) - room, measure(high) + room];
  const [first, last] = [points[0][0], Math.max(points.at(-1)[0], points[0][0] + 1)];
  const x = (at) => LEFT + ((at - first) / (last - first)) * (width - LEFT - RIGHT);
  const y = (value) =>
    HEIGHT - BOTTOM - ((measure(value) - bottom) / (top - bottom)) * (HEIGHT - TOP - BOTTOM);

  const told = `f on all rows by exchange: ${readable(values[0])} at first, ` +
    `${readable(values.at(-1))} at last`;
  const picture = shape("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`,
    role: "img", "aria-label": told });
  const levels = isLog ? powers(low, high) : ticks(low, high, false);
  for (const at of levels) {
    picture.append(
      shape("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(at), y2: y(at) }),
      shape("text", { x: LEFT - 8, y: y(at) + 4, "text-anchor": "end" }, readable(at)),
    );
  }
  const base = HEIGHT - BOTTOM;
  picture.append(shape("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: base, y2: base }));
  for (const at of ticks(first, last, true)) {
    picture.append(
      shape("line", { class: "axis", x1: x(at), x2: x(at), y1: base, y2: base + 5 }),
      shape("text", { x: x(at), y: base + 19, "text-anchor": "middle" }, String(at)),
    );
  }
  const axis = `f on all rows${isLog ? ", logarithmic" : ""}`;
  picture.append(
    shape("text", { x: 0, y: 14 }, axis),
    shape("text", { x: width - RIGHT, y: HEIGHT - 6, "text-anchor": "end" }, "exchange"),
    shape("path", { d: points.map(([at, value], place) =>
      `${place ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("") }),
  );
  for (const [at, value] of points.length <= MOST_DOTS ? points : points.slice(-1)) {
    const name = shape("title", {}, `exchange ${at}: f = ${readable(value)}`);
    picture.append(shape("circle", { cx: x(at), cy: y(value), r: 3 }, name));
  }
  return make("figure", { class: "line" }, picture);
}

function table(caption, head, rows) {
  const cells = (row) => row.map((cell, place) => place === 0
    ? make("th", { scope: "row" }, cell)
    : make("td", { "data-label": head[place], class: cell.length < 12 ? "short" : "" }, cell));
  return make("div", { class: "scroll" }, make("table", { class: "prose" },
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row))))));
}

function sites(seen) {
  const here = seen.filter((site) => site.state === "here").length;
  const known = { here: "here", away: "away" };
  return [
    make("h2", {}, "Sites ", make("small", {}, `${here} of ${seen.length} here`)),
    make("ul", { class: "sites" }, ...seen.map((site) =>
      make("li", { class: known[site.state] ?? "unknown" }, `${site.name} `,
        make("span", {}, site.state)))),
  ];
}

const linkTo = (run) => make("a", { href: `runs/${run.number}/report.html` }, "report");

function followed(run) {
  const parts = [
    make("h2", {}, "Run ", make("small", {}, run.number)),
    make("p", {}, stateOf(run.state), `, began ${run.since}`,
      run.folder === null ? "" : `, writes to ${run.folder}`,
      ...(run.has_report ? [": ", linkTo(run)] : [])),
  ];
  if (run.reason !== null) {
    parts.push(make("div", { class: "notes", role: "note" }, make("p", {}, run.reason)));
  }
  if (run.objective.length > 0) {
    const lowest = Math.min(...run.objective.map(([, value]) => value));
    parts.push(
      make("p", {}, `${counted(run.exchanges, "exchange")}; f on all rows was ` +
        `${readable(run.objective.at(-1)[1])} last and ${readable(lowest)} at its lowest. ` +
        "Of several models in an exchange, that of the lowest f counts."),
      chart(run.objective),
    );
  } else {
    parts.push(make("p", {}, run.exchanges > 0
      ? `${counted(run.exchanges, "exchange")}, and none has told f on all rows yet.`
      : "No exchange yet."));
  }
  if (run.sites.length > 0) {
    parts.push(table("How sites did up to the last exchange; what was sent to them and received",
      ["site", "state", "answered", "missed", "sent", "received"],
      run.sites.map((site) => [
        site.name,
        make("span", {}, stateOf(site.state), site.reason === null ? "" : `: ${site.reason}`),
        site.answers.toLocaleString("en"), site.missed.toLocaleString("en"),
        size(site.bytes_down), size(site.bytes_up),
      ])));
  }
  const said = make("pre", { class: "said", tabindex: "0" }, run.said.join("\n") || "Nothing yet.");
  parts.push(make("h3", {}, "What it said"), said);
  return parts;
}

function earlier(runs) {
  if (runs.length === 0) return [];
  return [
    make("h2", {}, "Earlier runs"),
    table("Since the server was started", ["began", "folder", "how it ended", "page"],
      runs.map((run) => [
        run.since, run.folder ?? "none",
        make("span", {}, stateOf(run.state), run.reason === null ? "" : `: ${run.reason}`),
        run.has_report ? linkTo(run) : "none",
      ])),
  ];
}

// A section is drawn again only if what it shows has changed.
function redraw(id, told, parts) {
  const written = JSON.stringify(told);
  if (drawn.get(id) === written) return;
  drawn.set(id, written);
  document.getElementById(id).replaceChildren(...parts(told));
  for (const said of document.getElementById(id).querySelectorAll(".said")) {
    said.scrollTop = said.scrollHeight;
  }
}

function show(seen) {
  redraw("sites", seen.sites, sites);
  redraw("followed", seen.runs.filter((run) => run.is_followed), (runs) => runs.flatMap(followed));
  redraw("earlier", seen.runs.filter((run) => !run.is_followed), earlier);
}

function tell(text, isTrouble) {
  const line = document.getElementById("server");
  if (line.textContent !== text) line.textContent = text;
  line.classList.toggle("trouble", isTrouble);
  document.querySelector("main").classList.toggle("stale", isTrouble);
}

async function asked() {
  const response = await fetch("state.json");
  if (!response.ok) throw new Error(response.statusText);
  return response.json();
}

async function look() {
  const seen = await asked().catch(() => null);
  setTimeout(look, EVERY);
  if (seen === null) {
    tell("Not up to date: 'fedsparse federation watch' has ended; start it again and open the " +
      "address that it tells.", true);
    return;
  }
  latest = seen;
  show(seen);
  tell(seen.trouble === null ? `The server at ${seen.server} answers.`
    : `Not up to date: ${seen.trouble}.`, seen.trouble !== null);
}

function fit() {
  drawn.delete("followed"); // charts are as wide as the window lets them be
  if (latest !== null) show(latest);
}

addEventListener("resize", fit);
look();
