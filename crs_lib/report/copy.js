"use strict";
// Two buttons below each table: it is copied as CSV, or as LaTeX (booktabs).
const rows = (table) =>
  Array.from(table.rows, (row) => Array.from(row.cells, (cell) => {
    const ends = cell.querySelector("small");
    const text = ends ? cell.firstChild.textContent : cell.textContent;
    return ends && ends.textContent ? `${text} [${ends.textContent.replace(" to ", ", ")}]` : text;
  }));
// A text that a spreadsheet would run gets an apostrophe in front; numbers stay numbers.
const safe = (text) => (/^'*[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text);
const csv = (table) =>
  rows(table).map((row) => row.map((text) => `"${safe(text.replaceAll("−", "-")).replaceAll('"', '""')}"`).join(",")).join("\n");
const inTex = (text) => text.replace(/[\\&%$#_{}~^]/g, (sign) =>
  ({ "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" })[sign] || `\\${sign}`).replaceAll("−", "$-$");
const latex = (table) => {
  const [head, ...body] = rows(table).map((row) => `${row.map(inTex).join(" & ")} \\\\`);
  const sides = Array.from(table.rows[0].cells, (cell) => (cell.classList.contains("value") ? "r" : "l")).join("");
  return [`\\begin{tabular}{${sides}}`, "\\toprule", head, "\\midrule", ...body, "\\bottomrule", "\\end{tabular}"].join("\n");
};
async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
for (const table of document.querySelectorAll("div.wide > table")) {
  const line = document.createElement("p");
  line.className = "copy";
  for (const [name, form] of [["CSV", csv], ["LaTeX", latex]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `copy ${name}`;
    button.addEventListener("click", async () => {
      await copy(form(table));
      button.textContent = `copied ${name}`;
    });
    line.append(button, " ");
  }
  table.parentElement.after(line);
}
