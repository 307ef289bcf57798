"use strict";
// The list of sessions, its filters and keys, and the data files, which come as scripts beside the page.
const crsTrace = (() => {
  const { el, label, shown } = crsSession;
  const HEIGHT = 46, KEPT = 16;
  const at = (id) => document.getElementById(id);
  const pages = new Map(), waiting = new Map();
  let index = null, order = [], row = -1, other = "", turn = 0, ticket = 0, place = new Map();
  let hits = null, phrase = "", scan = 0; // sessions whose utterances hold the phrase: row → turns

  // ── data ────────────────────────────────────────────────────────────────────────────────────
  function load(number) {
    if (pages.has(number)) return Promise.resolve(pages.get(number));
    if (waiting.has(number)) return waiting.get(number);
    const name = `page-${String(number).padStart(4, "0")}.js`;
    const promise = new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `data/${name}`;
      script.onload = () => (pages.has(number) ? resolve(pages.get(number)) : reject(new Error(`data/${name} is damaged; write the trace again`)));
      script.onerror = () => reject(new Error(`data/${name} is missing beside this page; write the trace again`));
      document.head.append(script);
      waiting.set(`script ${number}`, script);
    }).finally(() => { waiting.get(`script ${number}`).remove(); waiting.delete(`script ${number}`); waiting.delete(number); });
    waiting.set(number, promise);
    return promise;
  }

  function keep(number, page) {
    pages.set(number, page);
    if (pages.size > KEPT) pages.delete(pages.keys().next().value);
  }

  async function side(which) {
    const page = await load(Math.floor(which / index.page_size));
    return { page, row: which, session: page.sessions[which % index.page_size] };
  }

  // ── the list ────────────────────────────────────────────────────────────────────────────────
  const model = (r) => index.models[index.model[r]].name;
  const plot = (r) => index.plots[index.plot[r]];
  const metric = () => at("metric").value || index.session_metrics[0].name;
  const value = (r) => index.scores[metric()][r];
  const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

  function haystack(r) {
    const [genre, types, said] = plot(r);
    return fold(`${index.id[r]} ${model(r)} ${genre} ${types.map((t) => index.types[t]).join(" ")} ${said}`);
  }

  function filter() {
    const wanted = fold(at("search").value).split(/\s+/).filter(Boolean);
    const chosen = at("model").value, type = at("type").value;
    const low = parseFloat(at("low").value), high = parseFloat(at("high").value);
    const kind = type === "" ? -1 : index.types.indexOf(type);
    order = [];
    for (let r = 0; r < index.id.length; r++) {
      const v = value(r);
      if (hits && !hits.has(r)) continue;
      if (chosen && model(r) !== chosen) continue;
      if (kind >= 0 && !plot(r)[1].includes(kind)) continue;
      if (!Number.isNaN(low) && !(v !== null && v >= low)) continue;
      if (!Number.isNaN(high) && !(v !== null && v <= high)) continue;
      if (wanted.length) {
        const text = haystack(r);
        if (!wanted.every((word) => text.includes(word))) continue;
      }
      order.push(r);
    }
    const how = at("order").value, sign = how === "low" ? 1 : -1;
    if (how === "scenario") order.sort((a, b) => (index.id[a] < index.id[b] ? -1 : index.id[a] > index.id[b] ? 1 : a - b));
    if (how === "low" || how === "high") {
      order.sort((a, b) => {
        const x = value(a), y = value(b);
        return x === null || y === null ? (x === null) - (y === null) || a - b : sign * (x - y) || a - b;
      });
    }
    const all = index.id.length;
    at("count").textContent = order.length === all ? (all === 1 ? "1 session" : `${all.toLocaleString("en")} sessions`) : `${order.length.toLocaleString("en")} of ${all.toLocaleString("en")} sessions`;
    at("space").style.height = `${order.length * HEIGHT}px`;
    rows();
  }

  function rows() {
    const list = at("list"), first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - 5);
    const last = Math.min(order.length, first + Math.ceil(list.clientHeight / HEIGHT) + 10);
    const short = index.session_metrics.find((m) => m.name === metric()).short;
    at("rows").style.transform = `translateY(${first * HEIGHT}px)`;
    at("rows").replaceChildren(...order.slice(first, last).map((r, i) => {
      const [genre, types] = plot(r);
      return el("div", { class: "item", role: "option", id: `row-${r}`, "aria-selected": String(r === row), "aria-posinset": first + i + 1,
        "aria-setsize": order.length, onclick: () => open(r) },
        el("div", {}, el("i", { class: "dot", style: `background:${crsSession.paint(index.models[index.model[r]].colour)}` }),
          el("b", {}, model(r)), el("span", { class: "quiet" }, index.id[r]), el("span", { class: "value", title: short }, shown(value(r)))),
        el("div", { class: "quiet" }, [hits ? `turns ${hits.get(r).join(", ")}` : "", genre, ...types.map((t) => index.types[t])].filter(Boolean).join(" · ")));
    }));
    list.setAttribute("aria-activedescendant", row >= 0 ? `row-${row}` : "");
    if (!order.length) at("rows").replaceChildren(el("p", { class: "empty" }, "No session matches. Esc clears the search."));
  }

  // Reads every data file once, one after the other; a later search ends an earlier one.
  async function searchUtterances() {
    const wanted = fold(at("said").value).trim(), mine = ++scan;
    if (wanted === phrase) return;
    phrase = wanted;
    hits = null;
    if (wanted) {
      const found = new Map(), size = index.page_size, last = Math.ceil(index.id.length / size);
      for (let number = 0; number < last; number++) {
        let page;
        try { page = await load(number); } catch (error) { at("count").textContent = error.message; phrase = ""; return; }
        if (mine !== scan) return;
        page.sessions.forEach((session, k) => {
          const turns = crsSession.told(session).filter(([, text]) => fold(text).includes(wanted)).map(([turn]) => turn);
          if (turns.length) found.set(number * size + k, [...new Set(turns)]);
        });
        at("count").textContent = `searching the utterances: ${Math.round(100 * (number + 1) / last)} %`;
      }
      hits = found;
    }
    filter();
    if (hits && order.length) open(order[0]);
    else if (row >= 0) open(row, turn);
  }

  function underline() {
    if (!hits) return;
    document.querySelectorAll(".said .text").forEach((node) => node.classList.toggle("found", fold(node.textContent).includes(phrase)));
  }

  function reveal() {
    const list = at("list"), i = order.indexOf(row);
    if (i < 0) return;
    if (i * HEIGHT < list.scrollTop) list.scrollTop = i * HEIGHT;
    else if ((i + 1) * HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = (i + 1) * HEIGHT - list.clientHeight;
  }

  // ── opening ─────────────────────────────────────────────────────────────────────────────────
  async function open(which, go = 0) {
    row = which;
    turn = go || (hits && hits.has(which) ? hits.get(which)[0] : 0);
    const mine = ++ticket;
    rows();
    reveal();
    const match = other && other !== model(row) ? place.get(`${other}\n${index.id[row]}`) : undefined;
    try {
      const sides = await Promise.all([row, ...(match === undefined ? [] : [match])].map(side));
      if (mine !== ticket) return;
      crsSession.draw(at("view"), index, sides, metric(), jump);
      at("view").prepend(toolbar(match));
      at("view").scrollTop = 0;
      underline();
      if (turn) jump(turn);
      remember();
      document.title = `${model(row)} ${index.id[row]}${match === undefined ? "" : ` and ${other}`} · trace of ${index.run}`;
    } catch (error) {
      if (mine === ticket) at("view").replaceChildren(el("p", { class: "empty", role: "alert" }, error.message));
    }
  }

  function toolbar(match) {
    const mates = index.models.map((m) => m.name).filter((name) => name !== model(row) && place.has(`${name}\n${index.id[row]}`));
    const choice = el("select", { id: "with", "aria-label": "Compare with", onchange: (event) => compare(event.target.value) },
      el("option", { value: "" }, "no system"), mates.map((name) => el("option", { value: name, selected: match !== undefined && name === other }, name)));
    const i = order.indexOf(row);
    return el("nav", { class: "toolbar", "aria-label": "Session" },
      el("button", { type: "button", onclick: () => step(-1), disabled: i <= 0, title: "previous session ( k )" }, "←"),
      el("button", { type: "button", onclick: () => step(1), disabled: i < 0 || i + 1 >= order.length, title: "next session ( j )" }, "→"),
      el("label", {}, "compare with: ", choice), el("span", { class: "quiet" }, i < 0 ? "not in the list as filtered" : `${i + 1} of ${order.length}`));
  }

  function compare(name) {
    other = name;
    open(row, turn);
  }

  function step(by) {
    const i = order.indexOf(row), next = i < 0 ? 0 : i + by;
    if (next >= 0 && next < order.length) open(order[next]);
  }

  function jump(number) {
    const found = document.querySelector(`.pair[data-turn="${number}"]`);
    if (!found) return;
    turn = number;
    document.querySelectorAll(".pair.current").forEach((node) => node.classList.remove("current"));
    found.classList.add("current");
    const before = found.previousElementSibling;
    (before && before.querySelector(".shift") ? before : found).scrollIntoView({ block: "start" });
    remember();
  }

  function walk(by, shifts) {
    const all = [...document.querySelectorAll(".pair[data-turn]")]
      .filter((node) => !shifts || (node.previousElementSibling && node.previousElementSibling.querySelector(".shift")))
      .map((node) => Number(node.dataset.turn));
    const next = by > 0 ? all.find((n) => n > turn) : all.reverse().find((n) => n < turn);
    if (next !== undefined) jump(next);
  }

  // ── address, keys, help ─────────────────────────────────────────────────────────────────────
  function remember() {
    const parts = new URLSearchParams({ session: index.id[row], model: model(row) });
    if (other) parts.set("with", other);
    if (turn) parts.set("turn", turn);
    history.replaceState(null, "", `#${parts}`);
  }

  function recall() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const named = place.get(`${parts.get("model")}\n${parts.get("session")}`);
    const mate = parts.get("with") || "";
    other = index.models.some((m) => m.name === mate) ? mate : "";
    if (named !== undefined) open(named, Number(parts.get("turn")) || 0);
    else if (order.length) open(order[0]);
    else at("view").replaceChildren(el("p", { class: "empty" }, "This run has no sessions."));
  }

  function help() {
    const keys = [["j  k", "next, previous session"], ["n  p", "next, previous turn"], ["s  S", "next, previous shift"], ["/", "search sessions"], ["u", "search utterances; Enter starts"],
      ["c", "compare with another system"], ["Esc", "clear the searches, leave a field, close the other system"], ["?", "this help"]];
    at("help").replaceChildren(el("h2", {}, "Keys"),
      el("dl", {}, keys.map(([key, what]) => [el("dt", {}, key), el("dd", {}, what)])),
      el("form", { method: "dialog" }, el("button", { type: "submit", autofocus: true }, "Close")));
    at("help").showModal();
  }

  function escape() {
    const active = document.activeElement, search = at("search");
    if (active === at("said") || (hits && !search.value)) { at("said").value = ""; searchUtterances(); }
    else if (search.value) { search.value = ""; filter(); reveal(); }
    else if (!(active && active.matches("input, select")) && other) compare("");
    if (active && active.matches("input, select")) active.blur();
  }

  const KEYS = {
    j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1), n: () => walk(1), p: () => walk(-1),
    s: () => walk(1, true), S: () => walk(-1, true), "?": help, "/": () => { at("search").focus(); at("search").select(); }, u: () => { at("said").focus(); at("said").select(); },
    c: () => at("with") && at("with").focus(),
  };

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || at("help").open) return;
    if (event.key === "Escape") return void escape();
    if (event.target.closest && event.target.closest("input, select, textarea")) return;
    const scrolls = event.key.startsWith("Arrow") && !at("side").contains(event.target);
    if (scrolls || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  }

  function options(select, first, names, label = (x) => x) {
    select.replaceChildren(...(first ? [el("option", { value: "" }, first)] : []), ...names.map((name) => el("option", { value: name }, label(name))));
  }

  function start() {
    if (!index) {
      at("view").replaceChildren(el("p", { class: "empty", role: "alert" }, "data/index.js is missing beside this page; keep the folder together, or write the trace again."));
      return;
    }
    index.id.forEach((id, r) => place.set(`${model(r)}\n${id}`, r));
    options(at("model"), "all systems", index.models.map((m) => m.name));
    options(at("type"), "any shift", index.types);
    const metrics = new Map(index.session_metrics.map((m) => [m.name, label(m)]));
    options(at("metric"), "", [...metrics.keys()], (name) => metrics.get(name));
    at("metric").value = ["gain_after_change", "normalised_gain"].find((name) => metrics.has(name)) ?? index.session_metrics[0].name;
    for (const id of ["search", "low", "high"]) at(id).addEventListener("input", filter);
    for (const id of ["model", "type", "order"]) at(id).addEventListener("change", filter);
    at("metric").addEventListener("change", () => { filter(); open(row, turn); });
    at("said").addEventListener("change", searchUtterances);
    at("said").addEventListener("search", searchUtterances); // its own cross
    at("said").addEventListener("keydown", (event) => { if (event.key === "Enter") searchUtterances(); });
    at("list").addEventListener("scroll", rows, { passive: true });
    at("help-button").addEventListener("click", help);
    addEventListener("resize", rows);
    addEventListener("keydown", key);
    addEventListener("hashchange", recall);
    filter();
    recall();
  }

  // The list of sessions lies beside the page; only a script that the page itself made may load another one.
  function browse() {
    const script = document.createElement("script");
    script.src = "data/index.js";
    script.onload = script.onerror = start;
    document.head.append(script);
  }

  return { index: (data) => { index = data; }, page: keep, browse };
})();
