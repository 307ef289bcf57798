"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { fewest, reach, t } = data.rule;
  const get = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };
  const mean = (values) => values.reduce((sum, one) => sum + one, 0) / values.length;
  const number = (value) => (Math.abs(value) < 0.005 ? 0 : value).toFixed(2).replace("-", "−");

  /* The interval of a mean with a made-up user on the side of each end, as in crs_lib.stats.bounded. */
  const interval = (values) => {
    const n = values.length, middle = mean(values);
    const squares = values.reduce((sum, one) => sum + (one - middle) ** 2, 0);
    const error = Math.sqrt((squares + (n / (n + 1)) * reach ** 2) / n / (n + 1));
    const same = values.every((one) => one === values[0]);
    const none = n < fewest ? `${n} users` : same ? `the same for all ${n}` : "";
    const half = none ? NaN : reach / (n + 1) + t[Math.min(n, t.length) - 1] * error;
    return { mean: n ? middle : NaN, n, none, half };
  };

  /* Rows are [system, user, kind of user, straight gain, cost, catalogue, gain after a change]; null where undefined. */
  const systems = [];
  const add = (run, rows) => {
    const names = [...new Set(rows.map((row) => row[0]))];
    for (const name of names) {
      const mine = rows.filter((row) => row[0] === name && row[6] !== null);
      const taken = systems.some((one) => one.name === name);
      const [gain, cost, after] = [3, 4, 6].map((at) => interval(mine.map((row) => row[at]).filter((value) => value !== null)));
      const users = new Map(mine.map((row) => [row[1], row]));
      if (mine.length) systems.push({ name: taken ? `${name} (${run})` : name, run, users, gain, cost, after, own: !data.runs[run] });
    }
    return names.length;
  };
  const read = (text) => text.split("\n").filter(Boolean).map((line) => {
    const row = JSON.parse(line), catalog = /catalog (\w+)/.exec(row.input_hash ?? "")?.[1] ?? "";
    return [row.model, row.session_id, `${row.voice ?? ""} ${row.detail?.n_shifts}`, row.straight_gain ?? null, row.shift_cost ?? null, catalog, row.gain_after_change ?? null];
  });

  /* -1 where users of the first get more after a change, 1 where they get less, 0 where the data do not tell. */
  const told = (a, b) => {
    const both = [...a.users.keys()].filter((user) => b.users.has(user));
    const same = both.length > 1 && both.every((user) => [2, 5].every((at) => a.users.get(user)[at] === b.users.get(user)[at]));
    const paired = interval(both.map((user) => a.users.get(user)[6] - b.users.get(user)[6]));
    const apart = { mean: a.after.mean - b.after.mean, half: Math.hypot(a.after.half, b.after.half) };
    const { mean: gap, half } = same ? paired : apart;
    return Math.abs(gap) > half ? -Math.sign(gap) : 0;
  };

  const cell = (found, from, to) => {
    const node = make("td", number(found.mean), "value");
    const known = !Number.isNaN(found.half);
    node.append(make("small", known ? `${number(found.mean - found.half)} to ${number(found.mean + found.half)}` : found.none));
    const bar = make("span", undefined, "bar"), at = (value) => 100 * Math.min(1, Math.max(0, (value - from) / (to - from)));
    const line = make("i"), dot = make("b");
    line.style.left = `${at(found.mean - (found.half || 0))}%`;
    line.style.right = `${100 - at(found.mean + (found.half || 0))}%`;
    dot.style.left = `${at(found.mean)}%`;
    bar.append(line, dot);
    node.append(bar);
    return node;
  };
  const draw = () => {
    const ranked = [...systems].sort((a, b) => b.after.mean - a.after.mean);
    const head = make("tr");
    for (const [text, kind] of [["rank"], ["system"], ["gain after a change", "value"], ["straight gain", "value"], ["shift cost", "value"], ["users", "value"]]) {
      head.append(Object.assign(make("th", text, kind), { scope: "col" }));
    }
    const rows = ranked.map((one) => {
      const signs = ranked.map((other) => (other === one ? 0 : told(one, other)));
      const low = 1 + signs.filter((sign) => sign > 0).length, high = ranked.length - signs.filter((sign) => sign < 0).length;
      const row = make("tr", undefined, one.own ? "own" : "");
      const place = low === high ? `${low}` : `${low} to ${high}`;
      row.append(make("td", place), make("td", one.name), cell(one.after, -0.5, 1), cell(one.gain, -0.5, 1), cell(one.cost, -0.5, 1), make("td", one.after.n, "value"));
      return row;
    });
    const body = make("tbody"), top = make("thead");
    top.append(head);
    body.append(...rows);
    get("board").replaceChildren(top, body);
  };
  const take = async (files) => {
    const said = [];
    for (const file of files) {
      try {
        said.push(`${file.name}: ${add(file.name.replace(/\.jsonl$/, ""), read(await file.text()))} systems`);
      } catch (error) {
        said.push(`${file.name} is no results.jsonl (${error.message})`);
      }
    }
    get("state").textContent = said.join("; ");
    draw();
  };
  get("file").addEventListener("change", (event) => take(event.target.files));
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
  document.addEventListener("drop", (event) => take(event.dataTransfer.files));
  for (const [run, rows] of Object.entries(data.runs)) add(run, rows);
  draw();
})();
