"use strict";
// Shows the session in the data block. Every text of the session is put in as text, never as markup.
(() => {
  const LIMIT = 200, LONG = 4000, SHOWN_RESULTS = 100;
  const LAYERS = {
    pinned: "carried over word for word", excerpts: "lines of the rest, chosen by code", summary: "what was written of the rest",
    tail: "stays as it is", replaced: "leaves the context",
    fixed: "system prompt and tools, and what the estimates of the parts miss",
  };
  const KINDS = {
    prompt: "prompts", answer: "answers", thought: "thoughts", call: "tool calls", failed: "failed calls",
    compaction: "compactions", note: "notes", hook: "hooks", plan: "plans", pin: "pins", undo: "undos",
    setting: "settings", refused: "refusals", error: "turns that failed",
  };
  const $ = (id) => document.getElementById(id);
  let data = JSON.parse($("data").textContent);

  const h = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  };
  const chip = (text, bad) => (text ? h("span", { class: bad ? "chip bad" : "chip" }, text) : null);
  const number = (value) => value.toLocaleString("en");
  const money = (value) => (value ? "$" + value.toFixed(value < 0.1 ? 4 : 2) : "");
  const percent = (value) => (value === null ? "–" : Math.round(value * 100) + " %");
  const clock = (at) => (at ? new Date(at).toLocaleTimeString() : "");
  const moment = (at) => (at ? new Date(at).toLocaleString() : "");
  const lasted = (ms) => (ms < 1000 ? ms + " ms" : (ms / 1000).toFixed(1) + " s");
  const one = (text) => text.slice(0, 400).replace(/\s+/g, " ").trim().slice(0, 160);

  // A details element whose inside is made when it is opened first.
  const folded = (id, name, summary, fill, open) => {
    const body = h("div", { class: "body" });
    const element = h("details", { id, class: name }, h("summary", {}, ...summary), body);
    element.fill = () => { if (!element.filled) { element.filled = true; fill(body); } };
    element.addEventListener("toggle", () => { if (element.open) element.fill(); });
    if (open) { element.fill(); element.open = true; }
    return element;
  };

  // The first of many, and a button for more. What has changed in a later list is made anew, and stays open.
  const listed = (parent, values, make) => {
    let shown = 0;
    const button = h("button", { type: "button" });
    const made = (index, open) => {
      const element = make(values[index], index, open);
      element.stamp = JSON.stringify(values[index]);
      return element;
    };
    const upTo = (count) => {
      const end = Math.min(values.length, Math.max(count, shown)), fresh = document.createDocumentFragment();
      for (; shown < end; shown++) fresh.append(made(shown));
      parent.insertBefore(fresh, button);
      button.hidden = shown >= values.length;
      button.textContent = "Show more (" + number(values.length - shown) + " left)";
    };
    const refresh = (later) => {
      const all = shown >= values.length;
      values = later;
      for (let index = 0; index < Math.min(shown, values.length); index++) {
        const old = parent.children[index];
        if (old.stamp !== JSON.stringify(values[index])) old.replaceWith(made(index, old.open));
      }
      for (; shown > values.length; shown--) parent.children[shown - 1].remove();
      upTo(all ? Math.max(shown, LIMIT) + LIMIT : shown);
    };
    button.addEventListener("click", () => upTo(shown + LIMIT));
    parent.append(button);
    upTo(LIMIT);
    return { upTo, refresh };
  };

  const textBox = (text) => {
    const box = h("pre", { tabindex: "0" }, text.slice(0, LONG));
    if (text.length <= LONG) return [box];
    const button = h("button", { type: "button" }, "Show all " + number(text.length) + " characters");
    button.addEventListener("click", () => { box.textContent = text; button.remove(); });
    return [box, button];
  };

  // Keep what is there and unchanged, let what has changed take it in or replace it, add what is new.
  const sync = (parent, values, make) => {
    values.forEach((value, index) => {
      const stamp = JSON.stringify(value), old = parent.children[index];
      if (old && old.stamp === stamp) return;
      if (old && old.refresh) return old.refresh(value, stamp);
      const fresh = make(value, index, old && old.open);
      fresh.stamp = stamp;
      if (old) old.replaceWith(fresh); else parent.append(fresh);
    });
    while (parent.children.length > values.length) parent.lastChild.remove();
  };

  // ------------------------------------------------------------------------------------------ sections
  const overview = () => {
    $("title").textContent = data.title || data.session;
    $("about").textContent = [data.session, data.cwd, data.model, "mode " + data.mode, moment(data.began) + " – " +
      moment(data.ended), number(data.head) + " entries"].filter(Boolean).join(" · ");
    const totals = data.totals, before = data.steps.filter((step) => step.elsewhere).length;
    const done = data.compactions.filter((each) => each.status === "completed").length;
    $("totals").replaceChildren(...[
      ["Turns", number(data.turns.filter((turn) => turn.number).length)],
      ["Steps", number(totals.steps) + (before ? " (" + number(before) + " before the fork)" : "")],
      ["Tool calls", number(totals.calls) + (totals.failed ? " (" + number(totals.failed) + " failed)" : "")],
      ["Compactions", number(done)],
      ["Sent", number(totals.sent) + " tokens"],
      ["Answered", number(totals.output) + " tokens"],
      ["From the cache", percent(totals.cached)],
      ["Cost", money(totals.cost) || "unknown"],
      ["For compactions", money(totals.compaction_cost) || "–"],
    ].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  };

  const picture = () => {
    if (!data.plot) return $("plot").replaceChildren("No model has been asked yet.");
    const parsed = new DOMParser().parseFromString(data.plot, "image/svg+xml");
    $("plot").replaceChildren(document.importNode(parsed.documentElement, true));
  };

  const layerName = (layer) => h("span", { class: "layer" }, layer);
  const column = (title, total, all, prefix) => {
    // What is sent before the messages is no part of the log: it is what they leave of the sum.
    const rest = total - all.reduce((sum, block) => sum + block[3], 0);
    const blocks = rest > 0 ? [["fixed", "", 0, rest, "", false], ...all] : all;
    const bar = h("div", { class: "bar", "aria-hidden": "true" });
    for (const layer of Object.keys(LAYERS)) {
      const tokens = blocks.reduce((sum, block) => sum + (block[0] === layer ? block[3] : 0), 0);
      if (!tokens) continue;
      const piece = h("span", { class: "layer layer-" + layer });
      piece.style.flexGrow = tokens;
      bar.append(piece);
    }
    const list = h("div", {});
    listed(list, blocks, ([layer, role, seq, tokens, text, shortened], index) => layer === "fixed"
      ? h("p", { class: "block layer-fixed" }, layerName(layer), " system prompt and tools", chip(number(tokens) + " tokens"))
      : folded(prefix + index, "block layer-" + layer,
        [layerName(layer), " ", h("span", {}, role + " #" + seq), chip(number(tokens) + " tokens"),
          shortened ? chip("shortened") : null, " ", h("span", { class: "more" }, one(data.texts[text]))],
        (body) => body.append(...textBox(data.texts[text]))));
    return h("section", { "aria-label": title },
      h("h3", {}, title + ": " + number(blocks.length) + " parts, " + number(total) + " tokens"),
      rest < 0 ? h("p", { class: "more" }, "The parts are estimated " + number(-rest) + " tokens too large.") : "",
      bar, list);
  };

  const compaction = (each, index, open) => {
    const happened = each.status === "completed", [before, after] = each.tokens;
    const share = before ? " (−" + Math.round((1 - after / before) * 100) + " %)" : "";
    const size = happened ? number(before) + " → " + number(after) + " tokens" + share : each.status;
    return folded("compaction-" + each.number, "compaction",
      [h("span", { class: "what" }, "Compaction " + each.number + ": " + size),
        chip(clock(each.at)), chip(each.trigger), chip(money(each.cost)),
        each.undone ? chip("undone at #" + each.undone, true) : null, happened ? null : chip(each.status, true)],
      (body) => {
        body.append(...textBox(each.text));
        if (happened) body.append(h("div", { class: "side" },
          column("Before", before, each.before, "b" + each.number + "-"),
          column("After", after, each.after, "a" + each.number + "-")));
      }, open);
  };

  const table = (heads, rows) => h("table", {},
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell))))));

  const costs = () => {
    const models = new Map();
    for (const step of data.steps) {
      if (step.elsewhere) continue;
      const sum = models.get(step.model) || { steps: 0, sent: 0, read: 0, write: 0, output: 0, cost: 0 };
      sum.steps += 1;
      for (const key of ["sent", "read", "write", "output", "cost"]) sum[key] += step[key] || 0;
      models.set(step.model, sum);
    }
    const rows = [...models].map(([name, sum]) => [name || "unknown", number(sum.steps), number(sum.sent),
      number(sum.read), percent(sum.sent ? sum.read / sum.sent : null), number(sum.write), number(sum.output),
      money(sum.cost) || "–"]);
    const { compaction_cost: compactions, other_cost: other } = data.totals;
    for (const [name, cost] of [["for compactions", compactions], ["for titles and unused summaries", other]])
      if (cost) rows.push([name, "–", "–", "–", "–", "–", "–", money(cost)]);
    $("models").replaceChildren(table(
      ["model", "steps", "sent", "from the cache", "share", "into the cache", "answered", "cost"], rows));
    if ($("all-steps").open) allSteps();
  };
  const allSteps = () => {
    const whole = table(["step", "turn", "sent", "from the cache", "answered", "cost"], []), more = h("div", {});
    $("steps").replaceChildren(whole, more);
    listed(more, data.steps, (step) => {
      const cells = [step.number, step.turn, number(step.sent), percent(step.sent ? step.read / step.sent : null),
        number(step.output), step.elsewhere ? "before the fork" : money(step.cost) || "–"];
      whole.tBodies[0].append(h("tr", {}, ...cells.map((cell) => h("td", {}, String(cell)))));
      return h("span", {});
    });
  };

  const itemId = (turn, index) => "item-" + turn + "-" + index;
  const item = (turn) => (each, index, open) => {
    const failed = each.status === "failed";
    const last = each.parts.length ? each.parts[each.parts.length - 1][1] : "";
    const shown = open === undefined ? each.kind === "prompt" || each.kind === "answer" : open;
    return folded(itemId(turn, index), "item " + each.kind,
      [h("span", { class: failed ? "what bad" : "what" }, each.title),
        chip("#" + each.seq), chip(clock(each.at)), chip(money(each.cost)),
        failed || each.status === "open" || each.status === "cancelled" ? chip(each.status, failed) : null,
        " ", shown ? null : h("span", { class: "more" }, one(last))],
      (body) => {
        for (const [label, text] of each.parts) body.append(h("h4", {}, label), ...textBox(text));
        if (each.compaction !== null) {
          const link = "#compaction-" + data.compactions[each.compaction].number;
          body.append(h("p", {}, h("a", { href: link }, "What the model saw before and after")));
        }
      }, shown);
  };

  const turnSummary = (turn) => [
    h("span", { class: "what" }, (turn.number ? "Turn " + turn.number + ": " : "") + turn.title),
    chip(clock(turn.at)), chip(turn.ended ? lasted(turn.ended - turn.at) : turn.number ? "not ended" : ""),
    chip(turn.items.length + " items"), chip(money(turn.cost)),
    turn.stop && turn.stop !== "end_turn" ? chip(turn.stop, true) : null,
  ];
  const turnView = (turn, index) => {
    const element = folded("turn-" + turn.number, "turn", turnSummary(turn), (body) => {
      body.append(element.error, list);
      element.listed = listed(list, element.turn.items, item(turn.number));
    });
    const list = h("div", {});
    element.turn = turn;
    element.error = h("p", { class: "bad" }, turn.error);
    element.refresh = (later, stamp) => {
      element.turn = later;
      element.stamp = stamp;
      element.querySelector("summary").replaceChildren(...turnSummary(later).filter(Boolean));
      element.error.textContent = later.error;
      if (element.listed) element.listed.refresh(later.items);
    };
    if (index === data.turns.length - 1) { element.fill(); element.open = true; }
    return element;
  };

  // ------------------------------------------------------------------------------------------ going there
  const reveal = (turnIndex, itemIndex) => {
    const element = $("turns").children[turnIndex];
    element.fill();
    element.open = true;
    if (itemIndex === null) return goTo(element);
    element.listed.upTo(itemIndex + 1);
    const target = $(itemId(element.turn.number, itemIndex));
    target.fill();
    target.open = true;
    goTo(target);
  };
  const goTo = (target) => {
    for (const old of document.querySelectorAll(".here")) old.classList.remove("here");
    target.classList.add("here");
    target.scrollIntoView({ block: "center" });
    target.querySelector("summary").focus({ preventScroll: true });
  };
  const followHash = () => {
    const target = /^#(compaction|turn)-\d+$/.test(location.hash) ? $(location.hash.slice(1)) : null;
    if (target) { target.fill(); target.open = true; goTo(target); }
  };

  // ------------------------------------------------------------------------------------------ search
  const textsOf = (each) => [each.title, ...each.parts.map((part) => part[1])];
  const found = (query, kind) => {
    const hits = [];
    data.turns.forEach((turn, turnIndex) => {
      turn.items.forEach((each, itemIndex) => {
        if (kind === "failed" ? each.kind !== "call" || each.status !== "failed" : kind && each.kind !== kind) return;
        const text = query ? textsOf(each).find((text) => text.toLowerCase().includes(query)) : each.title;
        if (text !== undefined) hits.push({ turnIndex, itemIndex, turn, name: "#" + each.seq + " " + each.kind, text });
      });
      if (kind && kind !== "error") return;
      // How it ended; that it ended well is nothing to look for.
      const ends = [turn.error, kind || turn.stop === "end_turn" ? "" : turn.stop].filter(Boolean);
      const text = ends.find((text) => text.toLowerCase().includes(query));
      if (text !== undefined) hits.push({ turnIndex, itemIndex: null, turn, name: "end of turn " + turn.number, text });
    });
    return hits;
  };
  const snippet = (text, query) => {
    const at = query ? text.toLowerCase().indexOf(query) : -1;
    if (at < 0) return [one(text)];
    const before = text.slice(Math.max(0, at - 60), at), after = text.slice(at + query.length, at + query.length + 120);
    return [before, h("mark", {}, text.slice(at, at + query.length)), after];
  };
  const search = () => {
    const query = $("query").value.trim().toLowerCase(), kind = $("kind").value;
    const results = $("results");
    results.replaceChildren();
    $("found").textContent = "";
    if (!query && !kind) return;
    const hits = found(query, kind);
    $("found").textContent = hits.length === 1 ? "1 entry" : number(hits.length) + " entries";
    for (const { turn, turnIndex, itemIndex, name, text } of hits.slice(0, SHOWN_RESULTS)) {
      const link = h("a", { href: "#turn-" + turn.number }, h("strong", {}, name), " ",
        ...snippet(text, query));
      link.addEventListener("click", (event) => { event.preventDefault(); reveal(turnIndex, itemIndex); });
      results.append(h("li", {}, link));
    }
    if (hits.length > SHOWN_RESULTS) results.append(h("li", {}, "The first " + SHOWN_RESULTS + " are shown."));
  };
  let waiting = 0;
  const searchSoon = () => { clearTimeout(waiting); waiting = setTimeout(search, 150); };

  // ------------------------------------------------------------------------------------------ all of it
  const show = () => {
    overview();
    picture();
    sync($("compaction-list"), data.compactions, compaction);
    costs();
    sync($("turns"), data.turns, turnView);
    document.documentElement.dataset.ready = data.head;
  };

  $("legend").append(...Object.entries(LAYERS).map(([layer, words]) =>
    h("li", { class: "layer-" + layer }, h("span", { class: "swatch" }), layer + ": " + words)));
  $("kind").append(h("option", { value: "" }, "everything"),
    ...Object.entries(KINDS).map(([kind, words]) => h("option", { value: kind }, words)));
  $("query").addEventListener("input", searchSoon);
  $("kind").addEventListener("change", search);
  $("search").addEventListener("submit", (event) => { event.preventDefault(); search(); });
  $("all-steps").addEventListener("toggle", () => { if ($("all-steps").open) allSteps(); });
  document.addEventListener("keydown", (event) => {
    const writing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      $("query").focus();
    } else if (event.key === "Escape" && event.target === $("query")) {
      $("query").value = "";
      search();
    }
  });
  addEventListener("hashchange", followHash);
  show();
  followHash();

  if ("live" in document.documentElement.dataset) {
    const still = (text) => { if ($("still").textContent !== text) $("still").textContent = text; };
    const catchUp = async () => {
      try {
        const answer = await fetch("data?" + data.head);
        if (!answer.ok) throw new Error(answer.statusText);
        if (answer.status === 200) {
          data = await answer.json();
          show();
          if ($("query").value) search();
        }
        still("");
      } catch {
        still("This page is not followed any more: acp-agent inspect has ended, or the session was removed.");
      }
      setTimeout(catchUp, 500);
    };
    catchUp();
  }
})();
