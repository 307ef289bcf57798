"use strict";
// Draws sessions. Every text from the data becomes a text node: nothing here parses HTML.
const crsSession = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  function put(node, name, value) {
    if (name === "style") node.style.cssText = value; // a style attribute would need 'unsafe-inline'
    else node.setAttribute(name, value);
  }

  function el(tag, props, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "class") node.className = value;
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else put(node, name, value === true ? "" : value);
    }
    node.append(...children.flat(9).filter((c) => c !== null && c !== undefined && c !== ""));
    return node;
  }

  function svg(tag, props, ...children) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(props)) put(node, name, value);
    node.append(...children);
    return node;
  }

  const words = (name) => String(name).replaceAll("_", " ");
  const shown = (value, digits = 2) =>
    value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
  const same = (a, b) => a[0] === b[0] && a[1] === b[1];
  const among = (list, constraint) => list.some((other) => same(other, constraint));
  const colour = (index, field) => "f" + (index.fields[field] ?? 6);

  // Black, the colour of the oracle, is white on dark pages, as in dark figures.
  const paint = (colour) => (colour === "#000000" ? "light-dark(#000000, #ffffff)" : colour);

  // ── text with its findings ──────────────────────────────────────────────────────────────────
  function utterance(index, pieces) {
    return el("div", { class: "text", dir: "auto" }, pieces.map((piece) => {
      if (typeof piece === "string") return piece;
      const [text, found] = piece;
      const kept = found.filter((f) => !f[2]), size = (f) => (f[1] || text).length;
      const first = (kept.length ? kept : found).reduce((a, b) => (size(b) > size(a) ? b : a));
      const told = found.map(([field, value, why]) => `${field}: ${value || text}${why ? ` – not counted: ${why}` : ""}`);
      const look = kept.length ? "mark " + colour(index, first[0]) : "rejected";
      return el("span", { class: look, title: told.join("\n") }, text);
    }));
  }

  // ── constraints ──────────────────────────────────────────────────────────────────────────────────
  function constraint(index, [field, value], extra) {
    return el("span", { class: `constraint ${extra || ""}` },
      el("span", { class: "field " + colour(index, field) }, field), el("span", { dir: "auto" }, value));
  }

  // The data leave out what is empty.
  const EMPTY = { act: "", user: [], system: [], constraints: [], avoid: [], answers: null, believes: [], shift: null, films: [], unknown: [], calls: [], undefined: "", missing: [], added: [] };
  const FILM = { met: [], avoided: [], dropped: [], again: false };

  function whole(session) {
    if (!session.whole) {
      session.turns = session.turns.map((t) => ({ ...EMPTY, ...t, films: (t.films || []).map((f) => ({ ...FILM, ...f })) }));
      session.whole = true;
    }
    return session;
  }

  function constraints(index, turn, before) {
    const old = before ? before.constraints : [];
    const chips = turn.constraints.map((w) => constraint(index, w, before && !among(old, w) ? "new" : ""));
    const gone = old.filter((w) => !among(turn.constraints, w)).map((w) => constraint(index, w, "gone"));
    const avoid = turn.avoid.map((w) => constraint(index, w, "avoid"));
    const none = chips.length + avoid.length ? [] : el("span", { class: "quiet" }, "none logged");
    const size = Number.isFinite(turn.answers)
      ? el("span", { class: "quiet" }, turn.answers === 1 ? "1 film meets them all" : `${turn.answers} films meet them all`) : null;
    return row("Constraints", none, chips, gone, avoid, size);
  }

  function believes(index, turn) {
    const held = turn.believes;
    const equal = held.length === turn.constraints.length && held.every((w) => among(turn.constraints, w));
    if (!held.length || equal) return null;
    const lost = turn.constraints.filter((w) => !among(held, w)).map((w) => constraint(index, w, "lost"));
    return row("System's state", held.map((w) => constraint(index, w, among(turn.constraints, w) ? "" : "wrong")), lost);
  }

  const row = (label, ...content) =>
    el("div", { class: "row" }, el("span", { class: "label" }, label), el("div", { class: "content" }, content));

  // ── films ───────────────────────────────────────────────────────────────────────────────────
  function film(index, page, turn, entry) {
    const known = page.films[entry.film];
    const marks = turn.constraints.map((w, i) => {
      const met = entry.met[i];
      const [look, sign, said] = met === null ? ["none", "?", "not in the catalogue"]
        : met ? ["yes", "✓", "met"] : ["no", "✗", "not met"];
      return el("span", { class: "met " + look, title: `${w[0]}: ${w[1]} – ${said}` }, `${sign} ${w[0]}`);
    });
    const leaks = !entry.met.includes(true);
    const bad = entry.avoided.map((w) => el("span", { class: "met bad", title: "violation: the user excluded it" }, `! ${w[0]} ${w[1]}`))
      .concat(entry.dropped.map((w) => el("span", { class: leaks ? "met bad" : "met again",
        title: leaks ? "meets a dropped constraint and no active one: leakage" : "meets a dropped constraint too" }, `↩ ${w[0]} ${w[1]}`)));
    const facts = Object.entries(known.values).filter(([field]) => field !== "year")
      .map(([field, values]) => row(field, values.join(", ")));
    return el("details", { class: "film" },
      el("summary", {},
        el("span", { class: "title" }, known.title), known.year ? el("span", { class: "quiet" }, ` ${known.year}`) : null,
        el("span", { class: "marks" }, marks, bad, entry.again ? el("span", { class: "met again", title: "recommended before" }, "again") : null)),
      facts.length ? facts : el("p", { class: "quiet" }, "The catalogue knows no more about it."));
  }

  function films(index, page, turn) {
    const unknown = turn.unknown.map((title) =>
      el("div", { class: "film unknown" }, el("span", { class: "title" }, title), el("span", { class: "met bad" }, "not in the catalogue")));
    const list = turn.films.map((entry) => film(index, page, turn, entry));
    return row("Films", list.length + unknown.length ? [list, unknown] : el("span", { class: "quiet" }, "none"));
  }

  // What an agent asked of its tool, in order, and what it got.
  function calls(turn) {
    if (!turn.calls.length) return null;
    return row("Tool calls", turn.calls.map((one) => el("div", { class: "film call" },
      el("code", { dir: "auto" }, one.call), " ",
      one.fault ? el("span", { class: "met bad" }, one.fault)
        : el("span", { class: "quiet", title: (one.films || []).join("\n") }, one.found === 1 ? "1 film" : `${one.found} films`),
      (one.notes || []).map((note) => el("span", { class: "quiet" }, ` ${note}`)))));
  }

  // ── scores ──────────────────────────────────────────────────────────────────────────────────
  // Symbols of one or two letters are for figures; a page has room for words.
  const label = (metric) => (metric.short.length > 2 ? metric.short : words(metric.name));

  function score(metric, value) {
    const arrow = metric.direction.startsWith("higher") ? " ↑" : metric.direction.startsWith("lower") ? " ↓" : "";
    const title = `${words(metric.name)}, in [${metric.low}, ${metric.high}], ${metric.direction}. ${metric.source}`;
    return el("span", { class: "score", title },
      el("span", { class: "name" }, label(metric) + arrow), " ", el("b", { class: value === null ? "quiet" : "" }, shown(value)));
  }

  const HEAD = ["normalised_gain", "item_tas", "novelty", "topic_interference_leakage", "topic_adaptation_score"];

  function scores(index, turn) {
    const all = index.turn_metrics.map((metric, i) => [metric, turn.scores[i]]);
    const head = HEAD.flatMap((name) => all.filter(([metric]) => metric.name === name));
    const rest = all.filter(([metric]) => !HEAD.includes(metric.name));
    const concepts = (label, keys) => (keys.length ? row(label, keys.map((key) => {
      const [field, ...value] = key.split("=");
      return constraint(index, [field, value.join("=")]);
    })) : null);
    return el("details", { class: "scores" },
      el("summary", {}, (head.length ? head : all).map(([m, v]) => score(m, v))),
      el("div", { class: "all" }, rest.map(([m, v]) => score(m, v))),
      turn.undefined ? row("Undefined", turn.undefined) : null,
      concepts("Only the user named", turn.missing), concepts("Only the system named", turn.added));
  }

  // ── shifts ──────────────────────────────────────────────────────────────────────────────────
  function recovered(label, found, watched) {
    if (!found) return null;
    const [soon, delay] = found;
    const when = delay === null ? `not followed in the ${watched === null ? "" : `${watched} `}replies until the next shift or the end`
      : delay === 0 ? "followed at once" : `followed after ${delay} ${delay === 1 ? "reply" : "replies"}`;
    return el("span", { class: soon ? "good" : "poor" }, `${label}: ${when}${delay !== null && !soon ? ", outside the window" : ""}`);
  }

  function banner(index, shift, turn) {
    const change = [
      shift.dropped.map((w) => constraint(index, w, "gone")), shift.added.map((w) => constraint(index, w, "new")),
      shift.avoid.map((w) => constraint(index, w, "avoid")),
    ];
    const moved = shift.from && shift.to && shift.from !== shift.to;
    return el("div", { class: "shift", role: "note" },
      el("b", {}, `Shift at turn ${turn}: ${shift.type}`), el("span", { class: "change" }, change),
      shift.bridge ? el("span", {}, "bridge ", constraint(index, shift.bridge)) : null,
      moved ? el("span", { class: "quiet" }, `in mind: ${shift.from} → ${shift.to}`) : null,
      recovered("films", shift.films, shift.watched), recovered("text", shift.text, shift.watched));
  }

  // What the reply says wrongly or shows against an exclusion, as the scores of the turn count it.
  const FAULTS = [["false_claims", "false claim", "the text says of a film that it meets a constraint which it does not meet"],
    ["violations", "violation", "a film shown has what the user excluded"]];

  function faults(index, turn) {
    return FAULTS.map(([name, text, title]) => {
      const place = index.turn_metrics.findIndex((m) => m.name === name);
      return place >= 0 && turn.scores[place] > 0 ? [" ", el("span", { class: "met bad", title }, `! ${text}`)] : null;
    });
  }

  // One legend for all sessions of the page.
  function legend(index) {
    const fields = Object.entries(index.fields).map(([name, place]) => el("span", { class: `mark f${place}` }, name));
    return el("p", { class: "legend" }, el("span", {}, "found: ", fields.flatMap((f) => [f, " "]), el("span", { class: "rejected" }, "not counted")),
      el("span", {}, el("span", { class: "constraint new" }, el("span", {}, "added")), " ", el("span", { class: "constraint gone" }, el("span", {}, "dropped"))),
      el("span", {}, "film: ", el("span", { class: "met yes" }, "✓ met"), " ", el("span", { class: "met no" }, "✗ not met"), " ",
        el("span", { class: "met bad" }, "! excluded"), " ", el("span", { class: "met bad" }, "↩ dropped constraint")),
      el("span", {}, "– missing, not zero"));
  }

  // ── a turn, a session, two sessions ─────────────────────────────────────────────────────────
  function turn(index, page, session, place) {
    const now = session.turns[place];
    const said = (who, note, text) => el("div", { class: "said " + who },
      el("div", { class: "who" }, who, note ? el("span", { class: "act" }, words(note)) : null, who === "system" ? faults(index, now) : null),
      utterance(index, text));
    return el("article", { class: "turn", "data-turn": now.turn },
      el("a", { class: "number", title: `turn ${now.turn}` }, String(now.turn)),
      el("div", { class: "talk" }, said("user", now.act, now.user), said("system", "", now.system)),
      el("div", { class: "facts" }, constraints(index, now, session.turns[place - 1]), believes(index, now),
        calls(now), films(index, page, now), scores(index, now)));
  }

  function judge(notes) {
    if (!notes) return null;
    const means = Object.entries(notes.means).map(([name, value]) =>
      el("span", { class: "score" }, el("span", { class: "name" }, name), " ", el("b", {}, shown(value, 1))));
    const rows = notes.notes.map((note) => el("tr", {},
      el("td", {}, note.construct), el("td", {}, note.judge), el("td", { class: "value" }, note.score === null ? "–" : String(note.score)),
      el("td", { dir: "auto" }, note.flag ? `not counted: ${note.flag}` : note.evidence || "")));
    return el("details", { class: "judge", open: rows.length <= 6 && rows.length > 0 }, el("summary", {}, el("span", { class: "label" }, "Judges"), means),
      rows.length ? el("div", { class: "wide", role: "group", tabindex: "0", "aria-label": "Scores by judge" },
        el("table", {}, el("thead", {}, el("tr", {}, ["construct", "judge", "score", "evidence"].map((name) => el("th", { scope: "col" }, name)))),
          el("tbody", {}, rows))) : null);
  }

  function timeline(index, session, metric, jump) {
    const place = index.turn_metrics.findIndex((m) => m.name === metric);
    const at = place < 0 ? Math.max(0, index.turn_metrics.findIndex((m) => m.name === "normalised_gain")) : place;
    const short = label(index.turn_metrics[at]);
    const values = session.turns.map((t) => t.scores[at]);
    const known = values.filter((v) => v !== null);
    const high = Math.max(1, ...known), low = Math.min(0, ...known), size = 46;
    const y = (v) => 4 + (size - 8) * (1 - (v - low) / (high - low));
    const wide = 14, chart = svg("svg", { viewBox: `0 0 ${wide * values.length} ${size + 12}`, class: "timeline", role: "img",
      "aria-label": `${short} by turn`, style: `max-width:${wide * values.length * 1.6}px` });
    session.turns.forEach((t, i) => {
      const box = svg("g", { class: "bar", "data-jump": t.turn }), x = i * wide;
      const text = svg("title", {});
      text.textContent = `turn ${t.turn}: ${short} ${shown(values[i])}${t.shift ? `, shift: ${t.shift.type}` : ""}`;
      box.append(text, svg("rect", { x, y: 0, width: wide, height: size + 12, class: "hit" }));
      if (t.shift) box.append(svg("line", { x1: x + 0.5, x2: x + 0.5, y1: 0, y2: size, class: "cut" }));
      if (values[i] === null) box.append(svg("circle", { cx: x + wide / 2, cy: size / 2, r: 1.6, class: "missing" }));
      else box.append(svg("rect", { x: x + 2.5, width: wide - 5, y: Math.min(y(values[i]), y(0)),
        height: Math.max(1, Math.abs(y(values[i]) - y(0))), class: "value" }));
      const label = svg("text", { x: x + wide / 2, y: size + 9, "text-anchor": "middle" });
      label.textContent = t.turn % 5 === 0 || t.turn === 1 ? t.turn : "";
      box.append(label);
      box.addEventListener("click", () => jump(t.turn));
      chart.append(box);
    });
    return el("figure", {}, el("figcaption", {}, `${short} by turn; lines are shifts`), chart);
  }

  function heading(index, session, row, metric, jump) {
    const look = index.models.find((m) => m.name === session.model);
    const shifts = session.turns.filter((t) => t.shift).length;
    const all = index.session_metrics.map((m) => [m, row < 0 ? null : index.scores[m.name][row]]);
    const chosen = [...new Set(["normalised_gain", "gain_after_change", "shift_cost", "topic_adaptation_score", metric])];
    const head = chosen.flatMap((name) => all.filter(([m]) => m.name === name));
    return el("div", { class: "heading" },
      el("h2", {}, el("i", { class: "dot", style: `background:${look ? paint(look.colour) : "gray"}` }), session.model,
        el("span", { class: "quiet" }, ` session ${session.id}`)),
      el("p", { class: "quiet" }, `${session.genre ? `goal: ${session.genre} · ` : ""}${session.turns.length} turns · ${shifts === 1 ? "1 shift" : `${shifts} shifts`}`),
      el("details", { class: "scores" }, el("summary", {}, head.map(([m, v]) => score(m, v))),
        el("div", { class: "all" }, all.filter(([m]) => !chosen.includes(m.name)).map(([m, v]) => score(m, v)))),
      timeline(index, session, metric, jump), judge(session.judge));
  }

  // ``sides``: one or two of {session, page, row}.
  function draw(target, index, sides, metric, jump) {
    sides.forEach((s) => whole(s.session));
    const numbers = [...new Set(sides.flatMap((s) => s.session.turns.map((t) => t.turn)))].sort((a, b) => a - b);
    const body = [legend(index), el("div", { class: "heads" }, sides.map((s) => heading(index, s.session, s.row, metric, jump)))];
    for (const number of numbers) {
      const places = sides.map((s) => s.session.turns.findIndex((t) => t.turn === number));
      const shifts = sides.map((s, i) => (places[i] < 0 ? null : s.session.turns[places[i]].shift));
      if (shifts.some(Boolean)) body.push(el("div", { class: "pair" }, shifts.map((shift) => (shift ? banner(index, shift, number) : el("div")))));
      body.push(el("div", { class: "pair", "data-turn": number },
        sides.map((s, i) => (places[i] < 0 ? el("div", { class: "turn quiet" }, "no such turn") : turn(index, s.page, s.session, places[i])))));
    }
    target.replaceChildren(el("div", { class: `sheet sides${sides.length}` }, body));
  }

  // The texts of a session as they are searched: [turn, text] for each utterance.
  const told = (session) => session.turns.flatMap((t) => [t.user, t.system].map((pieces) =>
    [t.turn, (pieces || []).map((piece) => (typeof piece === "string" ? piece : piece[0])).join("")]));

  return { el, words, label, shown, draw, told, paint };
})();
