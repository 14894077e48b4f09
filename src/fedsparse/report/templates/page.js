const draw = (group) => {
  const { charts, datasets } = JSON.parse(group.querySelector("script").textContent);
  return charts.map((chart) => {
    const place = document.createElement("div");
    place.className = "chart";
    group.append(place);
    const signals = (chart.params ?? []).map((param) => param.name);
    const view = vegaEmbed(place, { ...chart, datasets }, { renderer: "svg", actions: false })
      .then((drawn) => drawn.view);
    return { signals, view };
  });
};
const drawings = [...document.querySelectorAll(".charts")].flatMap(draw);
const update = (values) => Promise.all(drawings.map(async ({ signals, view }) => {
  const drawn = await view;
  for (const name of signals) if (name in values) drawn.signal(name, values[name]);
  return drawn.runAsync();
}));

const redraw = (isPrinting) => {
  document.documentElement.classList.toggle("printing", isPrinting);
  window.dispatchEvent(new Event("resize"));  // charts as wide as their place listen to it
};
window.addEventListener("beforeprint", () => redraw(true));
window.addEventListener("afterprint", () => redraw(false));

const buttons = [...document.querySelectorAll(".legend button")];
function choose(button) {
  const chosen = button.getAttribute("aria-pressed") === "true" ? null : button.value;
  for (const other of buttons) other.setAttribute("aria-pressed", other.value === chosen);
  return update({ chosen });
}
for (const button of buttons) button.addEventListener("click", () => choose(button));

const form = document.querySelector(".network");
function estimate() {
  if (!form.checkValidity()) return undefined;
  const delay = form.elements.delay.valueAsNumber;
  const bandwidth = form.elements.bandwidth.valueAsNumber;
  const seconds = ({ rounds, megabytes, computing }) =>
    rounds * delay / 1000 + megabytes * 8 / bandwidth + Number(computing);
  for (const row of document.querySelectorAll("tr:has([data-reference])")) {
    const reference = seconds(row.querySelector("[data-reference]").dataset);
    for (const cell of row.querySelectorAll("[data-rounds]")) {
      const time = seconds(cell.dataset);
      cell.textContent = time.toFixed(1) + " s (" + (reference / time).toFixed(1) + "×)";
    }
  }
  return update({ delay, bandwidth });
}
if (form) form.addEventListener("input", estimate);
