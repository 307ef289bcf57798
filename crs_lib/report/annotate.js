"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const store = `crs-annotate-${data.page}`;
  const get = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };

  /* What was answered is kept in this browser after every key, each rater's answers apart. */
  let kept = { rater: "", raters: {} };
  try { kept = { ...kept, ...JSON.parse(localStorage.getItem(store) || "{}") }; } catch { /* start afresh */ }
  const slot = (rater) => `rater ${rater}`;
  const mine = () => (kept.raters[slot(kept.rater)] ??= { answers: {}, at: 0 });
  const save = () => { try { localStorage.setItem(store, JSON.stringify(kept)); return true; } catch { return false; } };

  /* The order of the questions is the rater's own: a hash of initials and question sorts them. */
  const hash = (text) => {
    let h = 2166136261;
    for (const c of text) h = Math.imul(h ^ c.codePointAt(0), 16777619);
    return (h ^ (h >>> 15)) >>> 0;
  };
  let order = [];
  const arrange = () => {
    order = data.questions.map((q) => [hash(kept.rater + q.id), q]).sort((a, b) => a[0] - b[0]).map((e) => e[1]);
  };

  let shownAt = performance.now();
  const answered = () => Object.keys(mine().answers).length;
  const draw = () => {
    const now = order[mine().at];
    const sides = get("sides");
    sides.replaceChildren();
    sides.className = now.sides.length > 1 ? "two" : "";
    get("earlier").hidden = !now.earlier.length;
    get("before").replaceChildren(...now.earlier.map((text) => make("li", text)));
    now.sides.forEach((turns, place) => {
      const side = make("section");
      if (now.sides.length > 1) side.append(make("h2", place ? "Right" : "Left"));
      for (const line of turns) {
        const said = make("div", undefined, `said ${line.kind}`);
        said.append(make("b", line.who), document.createTextNode(line.text));
        side.append(said);
      }
      sides.append(side);
    });
    const given = mine().answers[now.id] || {};
    get("question").textContent = now.text ?? data.text;
    get("words").value = given.words || "";
    [...get("scale").children].forEach((button, i) => {
      button.setAttribute("aria-pressed", String(given.value === i + first));
    });
    const n = data.questions.length;
    get("done").style.width = `${(100 * answered()) / n}%`;
    get("bar").setAttribute("aria-valuemax", n);
    get("bar").setAttribute("aria-valuenow", answered());
    get("state").textContent = `Question ${mine().at + 1} of ${n} · ${answered()} answered`
      + (answered() === n ? " · all done: please export (E)" : "") + (save() ? "" : " · this browser keeps nothing: export before you leave");
    window.scrollTo(0, 0);
    shownAt = performance.now();
  };
  const go = (step) => { mine().at = Math.min(order.length - 1, Math.max(0, mine().at + step)); draw(); };
  const answer = (value, written) => {
    const seconds = Math.round((performance.now() - shownAt) / 100) / 10;
    const words = get("words").value.replace(/\s+/g, " ").trim();
    mine().answers[order[mine().at].id] = { value, seconds, ...(words && { words }) };
    if (data.words && value > first && !words && !written) { draw(); get("words").focus(); }  /* Enter there goes on */
    else go(1);
  };

  const rows = () => order.filter((q) => mine().answers[q.id]).map((q, place) => JSON.stringify({
    item: q.id, rater: kept.rater || "anonymous", ...mine().answers[q.id], place, page: data.page,
  }));
  const exported = () => {
    const url = URL.createObjectURL(new Blob([rows().join("\n") + "\n"], { type: "application/x-ndjson" }));
    const link = make("a");
    link.href = url;
    link.download = `labels-${(kept.rater || "anonymous").replace(/[^A-Za-z0-9-]+/g, "-")}-${data.page}.jsonl`;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    get("state").textContent = `${answered()} answers exported to ${link.download}`;
  };

  const first = data.first ?? 1;
  get("ask").hidden = !data.words;
  get("wanted").textContent = data.words;
  get("past").textContent = data.before;
  get("range").replaceChildren(make("kbd", first), "–", make("kbd", first + data.scale.length - 1));
  data.scale.forEach((name, i) => {
    const button = make("button", `${i + first} · ${name}`);
    button.type = "button";
    button.addEventListener("click", () => answer(i + first));
    get("scale").append(button);
  });
  get("rater").value = kept.rater;
  get("rater").addEventListener("change", () => {
    const before = kept.rater, now = order[mine().at];
    kept.rater = get("rater").value.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").trim();
    get("rater").value = kept.rater;
    arrange();
    if (!before && !kept.raters[slot(kept.rater)]) {  /* what was answered before the initials were given */
      kept.raters[slot(kept.rater)] = kept.raters[slot("")];
      delete kept.raters[slot("")];
      mine().at = answered() ? order.indexOf(now) : 0;
    }
    draw();
    get("rater").blur();
  });
  get("export").addEventListener("click", exported);
  document.addEventListener("keydown", (event) => {
    if (event.target === get("rater")) { if (event.key === "Enter") get("rater").blur(); return; }
    if (event.target === get("words")) {
      const given = mine().answers[order[mine().at].id];
      if (event.key === "Enter") { get("words").blur(); if (given) answer(given.value, true); }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const number = Number(event.key);
    if (event.key.trim() && number >= first && number < first + data.scale.length) answer(number);
    else if (event.key === "ArrowLeft") go(-1);
    else if (event.key === "ArrowRight" || event.key.toLowerCase() === "n") go(1);
    else if (event.key.toLowerCase() === "e") exported();
    else return;
    event.preventDefault();
  });
  arrange();
  draw();
})();
