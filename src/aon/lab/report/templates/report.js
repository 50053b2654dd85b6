"use strict";
// Draws the page's figures from the JSON beside it. Strings reach the page as text nodes only, never as markup.
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const known = (value) => value !== null && value !== undefined;
  const tip = at("tip");

  function node(name, attributes, parent) {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (parent) parent.append(made);
    return made;
  }

  function element(name, text, className, parent) {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    if (className) made.className = className;
    if (parent) parent.append(made);
    return made;
  }

  function label(parent, x, y, text, anchor, extra = {}) {
    node("text", { x, y, "text-anchor": anchor, ...extra }, parent).textContent = text;
  }

  // Scales and axes ------------------------------------------------------------------------------------------

  function ticks(low, high, wanted) {
    const rough = (high - low || 1) / wanted, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step);
    return { found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
  }

  function logTicks(low, high) {
    const found = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
      for (const k of high / low > 100 ? [1] : [1, 2, 5]) if (k * 10 ** e >= low && k * 10 ** e <= high) found.push(k * 10 ** e);
    return { found, digits: null };
  }

  function frame(figure, x, y, { log = false, names = null, across = "epoch" } = {}) {
    figure.replaceChildren();
    const box = figure.getBoundingClientRect();
    // 7 pixels a character: names that would touch their neighbours are slanted.
    const longest = names && Math.max(...names.map((n) => Math.min(n.length, 24)));
    const slanted = names && longest * 7 + 6 > (box.width - 54) / names.length;
    // The first slanted name reaches to the left of its column.
    const left = slanted ? Math.max(46, Math.min(names[0].length, 24) * 5 - (0.6 / names.length) * (box.width - 54)) : 46;
    const size = { left, right: box.width - 8, top: 10, bottom: box.height - (slanted ? 22 + longest * 4.4 : 36) };
    const svg = node("svg", { viewBox: `0 0 ${box.width} ${box.height}`, "aria-hidden": "true" }, figure);
    const f = log ? Math.log10 : (v) => v;
    const px = (v) => size.left + ((v - x[0]) / (x[1] - x[0] || 1)) * (size.right - size.left);
    const py = (v) => size.bottom - ((f(v) - f(y[0])) / (f(y[1]) - f(y[0]) || 1)) * (size.bottom - size.top);
    const rows = log ? logTicks(...y) : ticks(...y, (size.bottom - size.top) / 45);
    for (const v of rows.found) {
      node("line", { x1: size.left, x2: size.right, y1: py(v), y2: py(v), class: "grid" }, svg);
      label(svg, size.left - 7, py(v) + 4, rows.digits === null ? String(+v.toPrecision(3)) : v.toFixed(rows.digits), "end");
    }
    node("line", { x1: size.left, x2: size.right, y1: size.bottom, y2: size.bottom, class: "axis" }, svg);
    if (names) names.forEach((name, i) => nameTick(svg, px(i), size.bottom, name, slanted));
    else {
      const marks = ticks(...x, (size.right - size.left) / 60);
      for (const v of marks.found) if (across !== "epoch" || Number.isInteger(v)) label(svg, px(v), size.bottom + 18, v.toFixed(marks.digits), "middle");
      label(svg, size.right, size.bottom + 33, across, "end");
    }
    return { svg, px, py, size };
  }

  function nameTick(svg, x, y, name, slanted) {
    const shown = name.length > 24 ? name.slice(0, 23) + "…" : name;
    if (slanted) label(svg, x + 4, y + 14, shown, "end", { transform: `rotate(-40 ${x + 4} ${y + 14})` });
    else label(svg, x, y + 18, shown, "middle");
  }

  function range(values, margin = 0.05) {
    if (!values.length) return [0, 1];
    let [low, high] = [Math.min(...values), Math.max(...values)];
    const usual = [...values].sort((a, b) => a - b)[Math.floor(0.97 * (values.length - 1))];
    if (usual > 0 && high > 3 * usual) high = 1.5 * usual; // one exploding epoch must not flatten every curve
    const room = (high - low || Math.abs(high) || 1) * margin;
    return [low - room, high + room];
  }

  // The tip ----------------------------------------------------------------------------------------------------

  function showTip(x, y, title, entries) {
    tip.replaceChildren();
    element("b", title, "", tip);
    for (const entry of entries) {
      const line = element("div", "", entry.here ? "here" : "", tip);
      element("span", "", `swatch ${entry.colour ?? ""}`, line).style.color = entry.stroke ?? "";
      element("span", entry.name, "", line);
      element("span", entry.value, "", line);
    }
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), gap = 14;
    const left = x + gap + box.width > innerWidth ? x - gap - box.width : x + gap;
    tip.style.left = `${Math.max(4, Math.min(left, innerWidth - box.width - 4))}px`;
    // Above if there is room: below lies the finger, and often the curve.
    const top = y - gap - box.height >= 4 ? y - gap - box.height : y + gap;
    tip.style.top = `${Math.max(4, Math.min(top, innerHeight - box.height - 4))}px`;
  }

  // Mouse, finger and arrow keys all come down to `point(x, y)` in the figure's own pixels.
  function watch(figure, point, leave, step) {
    const hide = () => { tip.hidden = true; leave(); };
    figure.onpointermove = figure.onpointerdown = (event) => {
      const box = figure.getBoundingClientRect();
      point(event.clientX - box.left, event.clientY - box.top, event.clientX, event.clientY);
    };
    figure.onpointerleave = figure.onblur = hide;
    figure.onkeydown = (event) => {
      if (event.key === "Escape") hide();
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!move) return;
      event.preventDefault();
      const box = figure.getBoundingClientRect(), { x, y } = step(move);
      point(x, y ?? box.height / 2, box.left + x, box.top + (y ?? 20));
    };
    figure.tabIndex = 0;
  }

  // Curves: series of {name, colour, stroke, dashed, x, y, spread} ------------------------------------------------

  function path(points) {
    let pen = false, out = "";
    for (const [x, y] of points) {
      out += known(y) ? `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}` : "";
      pen = known(y);
    }
    return out;
  }

  function curves(figure, series, { log = false, thin = false, nearest = false, one = false, zero = false } = {}) {
    const usable = (v) => known(v) && (!log || v > 0);
    const values = series.flatMap((s) => s.y.filter(usable)), xs = [...new Set(series.flatMap((s) => s.x))].sort((a, b) => a - b);
    if (!values.length) { figure.replaceChildren(element("p", "Nothing to draw yet.", "note")); return; }
    let y = log ? [Math.min(...values) / 1.15, Math.max(...values) * 1.15] : range(values);
    if (zero) y = [Math.min(0, y[0]), y[1]];
    const { svg, px, py, size } = frame(figure, [xs[0], Math.max(xs.at(-1), xs[0] + 1)], y, { log });
    const clip = `clip-${figure.id}`;
    node("rect", { x: size.left, y: size.top - 4, width: size.right - size.left + 4, height: size.bottom - size.top + 4 }, node("clipPath", { id: clip }, svg));
    const inside = node("g", { "clip-path": `url(#${clip})` }, svg);
    if (one) node("line", { x1: size.left, x2: size.right, y1: py(1), y2: py(1), class: "one" }, inside);
    for (const s of series) if (s.spread) band(inside, s, px, py, log);
    const drawn = series.map((s) => {
      const line = node("path", { d: path(s.x.map((x, i) => [px(x), usable(s.y[i]) ? py(s.y[i]) : null])), class: `line ${s.colour ?? ""} ${s.dashed ? "dashed" : ""} ${thin ? "thin" : ""}` }, inside);
      if (s.stroke) line.style.color = s.stroke;
      if (s.shape) marks(inside, s, px, py, usable);
      if (s.x.length === 1 && usable(s.y[0])) node("circle", { cx: px(s.x[0]), cy: py(s.y[0]), r: 4, class: `dot ${s.colour ?? ""}` }, inside).style.color = s.stroke ?? "";
      return line;
    });
    const cross = node("g", {}, svg);
    let current = xs.length - 1;
    const leave = () => { cross.replaceChildren(); drawn.forEach((line) => line.classList.remove("near")); };
    const point = (mx, my, screenX, screenY) => {
      leave();
      current = xs.reduce((best, x, i) => (Math.abs(px(x) - mx) < Math.abs(px(xs[best]) - mx) ? i : best), 0);
      const x = xs[current];
      let entries = series.map((s, i) => ({ s, i, y: s.y[s.x.indexOf(x)], spread: s.spread?.[s.x.indexOf(x)] })).filter((e) => usable(e.y));
      if (!entries.length) return;
      const near = entries.reduce((a, b) => (Math.abs(py(b.y) - my) < Math.abs(py(a.y) - my) ? b : a));
      drawn[near.i].classList.add("near");
      node("line", { x1: px(x), x2: px(x), y1: size.top, y2: size.bottom, class: "cross" }, cross);
      if (nearest) entries = [near];
      for (const e of entries) node("circle", { cx: px(x), cy: py(e.y), r: 3.5, class: `dot ${e.s.colour ?? ""}`, "clip-path": `url(#${clip})` }, cross).style.color = e.s.stroke ?? "";
      showTip(screenX, screenY, `epoch ${x}`, entries.sort((a, b) => b.y - a.y).map((e) => ({
        name: e.s.name, colour: e.s.colour, stroke: e.s.stroke, here: e.i === near.i,
        value: figures(e.y) + (known(e.spread) ? ` ± ${figures(e.spread, e.y)}` : ""),
      })));
    };
    watch(figure, point, leave, (move) => ({ x: px(xs[Math.max(0, Math.min(xs.length - 1, current + move))]) }));
  }

  // Methods beyond the twelfth share a colour; shapes along the line tell them apart, as in the pictures.
  const OUTLINES = [null, null, "-1,-1 1,-1 1,1 -1,1", "0,-1.2 1.1,1 -1.1,1", "0,-1.3 1.3,0 0,1.3 -1.3,0", "-1.1,-1 1.1,-1 0,1.2"];

  function marks(parent, s, px, py, usable) {
    const every = Math.max(1, Math.floor(s.x.length / 8));
    s.x.forEach((x, i) => {
      if (i % every || !usable(s.y[i])) return;
      const move = `translate(${px(x).toFixed(1)} ${py(s.y[i]).toFixed(1)})`;
      if (OUTLINES[s.shape]) node("polygon", { points: OUTLINES[s.shape], class: `mark ${s.colour}`, transform: `${move} scale(3.2)` }, parent);
      else node("circle", { r: 3, class: `open ${s.colour}`, transform: move }, parent);
    });
  }

  function band(parent, s, px, py, log) {
    const points = s.x.map((x, i) => [x, s.y[i], s.spread[i]]).filter(([, y, d]) => known(y) && known(d) && (!log || y - d > 0));
    const upper = points.map(([x, y, d]) => `${px(x).toFixed(1)} ${py(y + d).toFixed(1)}`);
    const lower = points.map(([x, y, d]) => `${px(x).toFixed(1)} ${py(y - d).toFixed(1)}`).reverse();
    if (upper.length > 1) node("path", { d: `M${[...upper, ...lower].join("L")}Z`, class: `band ${s.colour}` }, parent);
  }

  // As many decimals as the value `like` deserves, so that a spread lines up with its mean.
  const figures = (v, like = v) => v.toFixed(Math.abs(like) >= 1 ? 2 : Math.abs(like) >= 0.1 ? 3 : 4);

  // Columns: for each name some marks {at, shift, low, mid, high, colour, title, lines of the tip} ---------------

  function columns(figure, names, marks) {
    if (!marks.length) { figure.replaceChildren(element("p", "Nothing to draw yet.", "note")); return; }
    const { svg, px, py, size } = frame(figure, [-0.6, names.length - 0.4], [0, Math.max(...marks.map((m) => m.high)) * 1.06], { names });
    const wide = px(1) - px(0);
    node("line", { x1: size.left, x2: size.right, y1: py(1), y2: py(1), class: "one" }, svg);
    const targets = marks.map((m) => {
      const x = px(m.at) + m.shift * wide, y = py(m.mid), group = node("g", { class: m.colour }, svg);
      node("line", { x1: x, x2: x, y1: py(m.low), y2: py(m.high), class: "bar", "stroke-width": Math.min(6, wide * 0.2) }, group);
      node("circle", { cx: x, cy: y, r: 3.6, class: "dot" }, group);
      return { ...m, x, y };
    });
    choose(figure, svg, targets.sort((a, b) => a.x - b.x), 0.5);
  }

  // A ring and the tip at the target {x, y, colour, title, lines} nearest to the pointer; `flat` shrinks distances in y.
  function choose(figure, svg, targets, flat) {
    const ring = node("g", {}, svg);
    let current = 0;
    const leave = () => ring.replaceChildren();
    const point = (mx, my, screenX, screenY) => {
      leave();
      const far = (t) => Math.hypot(t.x - mx, (t.y - my) * flat);
      current = targets.reduce((best, t, i) => (far(t) < far(targets[best]) ? i : best), 0);
      const { x, y, colour, title, lines } = targets[current];
      node("circle", { cx: x, cy: y, r: 8, class: `line ${colour}` }, ring);
      showTip(screenX, screenY, title, lines.map(([name, value]) => ({ name, value, colour })));
    };
    watch(figure, point, leave, (move) => targets[Math.max(0, Math.min(targets.length - 1, current + move))]);
  }

  // Strips: a line for each name with a bar from low to high and points {value, title, lines}; headings between them ----

  const STRIP = 24; // pixels from one line to the next

  function strips(figure, lines) {
    const named = lines.filter((l) => !l.heading), values = named.flatMap((l) => [l.low, l.mid, l.high, ...l.points.map((p) => p.value)]).filter(known);
    figure.replaceChildren();
    if (!values.length) { figure.append(element("p", "No run has finished yet.", "note")); return; }
    const bottom = lines.length * STRIP + 8;
    figure.style.height = `${bottom + 26}px`;
    const width = figure.getBoundingClientRect().width, [low, high] = range(values, 0.06);
    const left = Math.min(Math.max(...named.map((l) => l.name.length)) * 7.4 + 16, width * 0.45), fits = Math.floor((left - 16) / 7.4);
    const px = (v) => left + ((v - low) / (high - low)) * (width - 12 - left);
    const svg = node("svg", { viewBox: `0 0 ${width} ${bottom + 26}`, "aria-hidden": "true" }, figure), marks = ticks(low, high, (width - left) / 70);
    for (const v of marks.found) {
      node("line", { x1: px(v), x2: px(v), y1: 4, y2: bottom, class: "grid" }, svg);
      label(svg, px(v), bottom + 18, v.toFixed(marks.digits), "middle");
    }
    const targets = [];
    lines.forEach((l, i) => {
      const y = 4 + STRIP * (i + 0.5);
      if (l.heading) { label(svg, 0, y + 5, l.heading, "start", { class: "heading" }); return; }
      label(svg, left - 10, y + 4, l.name.length > fits ? l.name.slice(0, fits - 1) + "…" : l.name, "end");
      const group = node("g", { class: l.colour }, svg);
      if (known(l.low)) node("line", { x1: px(l.low), x2: px(l.high), y1: y, y2: y, class: "bar", "stroke-width": 6 }, group);
      if (known(l.mid)) node("line", { x1: px(l.mid), x2: px(l.mid), y1: y - 9, y2: y + 9, class: "mean" }, group);
      if (known(l.mid)) targets.push({ ...l, x: px(l.mid), y });
      l.points.forEach((p, k) => {
        const place = { x: px(p.value), y: y + (l.points.length > 1 ? (k / (l.points.length - 1) - 0.5) * STRIP * 0.4 : 0) };
        node("circle", { cx: place.x, cy: place.y, r: 4, class: "open" }, group);
        targets.push({ ...p, ...place, colour: l.colour });
      });
    });
    choose(figure, svg, targets, 2);
  }

  // Points {x, y, colour, title, lines} in a plane ----------------------------------------------------------------

  function scatter(figure, points, across) {
    const x = range(points.map((p) => p.x), 0.06), { svg, px, py } = frame(figure, x, range(points.map((p) => p.y), 0.1), { across });
    for (const p of points) node("circle", { cx: px(p.x), cy: py(p.y), r: 4.5, class: `dot ${p.colour}` }, svg);
    choose(figure, svg, points.map((p) => ({ ...p, x: px(p.x), y: py(p.y) })).sort((a, b) => a.x - b.x), 0.5);
  }

  // What is drawn ------------------------------------------------------------------------------------------------

  const methodOf = (row) => data.methods[data.rows[row].method], colourOf = (row) => methodOf(row).look, nameOf = (row) => data.rows[row].label;
  const shapeOf = (row) => Number(/m-(\d)/.exec(colourOf(row))[1]), parts = { min: "smallest", median: "median", max: "largest" };
  const state = { shown: data.methods.map(() => true), setting: 0, mode: "best", log: false, spectra: 0, part: "min" };

  function drawRuns() {
    const lines = data.runs.map((r, i) => ({
      name: methodOf(i).label, colour: colourOf(i), title: nameOf(i), mid: r.mean, low: known(r.spread) ? r.mean - r.spread : null, high: known(r.spread) ? r.mean + r.spread : null,
      lines: [["mean", `${figures(r.mean ?? 0)} %`], ["standard deviation", known(r.spread) ? figures(r.spread) : "-"], ["runs", String(r.points.length)]],
      points: r.points.map((p) => ({ value: p.values[0], title: `${nameOf(i)}, seed ${p.seed}`, lines: p.values.map((v, k) => [data.outcomes[k], known(v) ? `${figures(v)} %` : "-"]) })),
    }));
    if (data.settings.length === 1) { strips(at("runs"), lines); return; }
    strips(at("runs"), data.settings.flatMap((heading, k) => [{ heading }, ...lines.filter((_, i) => data.rows[i].setting === k)]));
  }

  function drawCurves() {
    data.curves.forEach((panel, i) => {
      const series = panel.series.filter(isShown).map((s) => ({
        name: `${methodOf(s.row).label}, ${s.kind}`, colour: colourOf(s.row), shape: shapeOf(s.row), dashed: s.kind === "validation",
        x: s[state.mode].x, y: s[state.mode].y, spread: s[state.mode].spread,
      }));
      curves(at(["loss", "accuracy"][i]), series, { log: i === 0 && state.log });
    });
    const runs = state.mode === "best" ? "The run of each method with the highest validation accuracy." : "Mean of each method's runs; the band is one standard deviation to either side.";
    const setting = data.settings.length > 1 ? ` Setting: ${data.settings[state.setting]}.` : "";
    at("what").textContent = runs + setting + (state.log ? " The loss is on a logarithmic scale." : "");
  }

  const isShown = (s) => state.shown[data.rows[s.row].method] && data.rows[s.row].setting === state.setting;

  // All curves, shown or not, as a file: one line for each epoch of a method's best run and of the mean of its runs.
  function curvesAsCsv() {
    const quoted = (v) => (known(v) ? (/[",\n]/.test(String(v)) ? `"${String(v).replaceAll('"', '""')}"` : String(v)) : "");
    const safe = (name) => (/^[=+@\t\r]/.test(name) ? `'${name}` : name); // a spreadsheet would run a formula
    const lines = [["method", "setting", "quantity", "kind", "epoch", "best run", "mean", "standard deviation"]];
    for (const panel of data.curves) for (const s of panel.series) s.mean.x.forEach((x, i) => {
      const row = data.rows[s.row];
      lines.push([safe(data.methods[row.method].label), safe(data.settings[row.setting]), panel.title, s.kind, x, s.best.y[s.best.x.indexOf(x)], s.mean.y[i], s.mean.spread[i]]);
    });
    return lines.map((line) => line.map(quoted).join(",")).join("\n") + "\n";
  }

  function download(name, text) {
    const link = element("a", "", "");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  const ramp = (t) => {
    const stops = [[63, 111, 181], [140, 140, 140], [214, 164, 0]], k = Math.min(1, Math.floor(t * 2)), f = t * 2 - k;
    return `rgb(${stops[k].map((c, i) => Math.round(c + f * (stops[k + 1][i] - c))).join(" ")})`;
  };

  function drawSpectra() {
    const names = [...new Set(data.spectra.flatMap((s) => s.layers.map((l) => l.name)))];
    const marks = data.spectra.flatMap((s, i) => s.layers.map((l) => ({
      at: names.indexOf(l.name), shift: data.spectra.length > 1 ? (i / (data.spectra.length - 1) - 0.5) * 0.55 : 0,
      low: l.min.at(-1), mid: l.median.at(-1), high: l.max.at(-1), colour: colourOf(s.row), title: `${l.name} (${l.shape})`,
      lines: [[nameOf(s.row), ""], ["largest", figures(l.max.at(-1))], ["median", figures(l.median.at(-1))], ["smallest", figures(l.min.at(-1))]],
    })).filter((m) => [m.low, m.mid, m.high].every(known)));
    columns(at("by-layer"), names, marks);
    at("by-layer-methods").replaceChildren(...key(data.spectra.map((s) => s.row)));
    const chosen = data.spectra[state.spectra], depth = chosen.layers.length;
    const series = chosen.layers.map((l, i) => ({ name: `${l.name} (${l.shape})`, stroke: ramp(depth > 1 ? i / (depth - 1) : 0), x: chosen.epochs, y: l[state.part] }));
    curves(at("over-time"), series, { thin: true, nearest: true, one: true, zero: true });
    at("over-time-what").textContent = `${nameOf(chosen.row)}, seed ${chosen.seed}: ${parts[state.part]} singular value of each layer.`;
  }

  const key = (rows) => rows.flatMap((row) => [element("span", "", `swatch ${colourOf(row)}`), element("span", nameOf(row), "name")]);

  function drawOrthonormality() {
    at("orthonormality-methods").replaceChildren(...key([...new Set(data.orthonormality.map((p) => p.row))]));
    scatter(at("orthonormality"), data.orthonormality.map((p) => ({ ...p, colour: colourOf(p.row), title: nameOf(p.row), lines: [["test accuracy", `${figures(p.y)} %`], ["orthonormality error", figures(p.x)]] })), "orthonormality error");
  }

  // Controls -------------------------------------------------------------------------------------------------------

  function choice(parent, options, pick) {
    const buttons = options.map(([text, value]) => {
      const button = element("button", text, "", parent);
      button.type = "button";
      button.onclick = () => { pick(value); buttons.forEach((b) => b.setAttribute("aria-pressed", String(b === button))); };
      return button;
    });
    buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(i === 0)));
  }

  data.methods.forEach((method, i) => {
    const button = element("button", "", "", at("legend"));
    button.type = "button";
    element("span", "", `swatch ${method.look}`, button);
    element("span", method.label, "", button);
    button.setAttribute("aria-pressed", "true");
    button.onclick = () => { state.shown[i] = !state.shown[i]; button.setAttribute("aria-pressed", String(state.shown[i])); drawCurves(); };
  });
  for (const mode of ["best", "mean"]) at(`show-${mode}`).onclick = () => {
    state.mode = mode;
    for (const other of ["best", "mean"]) at(`show-${other}`).setAttribute("aria-pressed", String(other === mode));
    drawCurves();
  };
  at("log").onclick = () => { state.log = !state.log; at("log").setAttribute("aria-pressed", String(state.log)); drawCurves(); };
  at("no-spectra").hidden = data.spectra.length > 0;
  at("spectra-body").hidden = data.spectra.length === 0;
  at("orthonormality-body").hidden = data.orthonormality.length === 0;
  at("download").onclick = () => download("curves.csv", curvesAsCsv());
  if (data.settings.length > 1) choice(at("curve-settings"), data.settings.map((name, i) => [name, i]), (i) => { state.setting = i; drawCurves(); });
  choice(at("spectra-methods"), data.spectra.map((s, i) => [nameOf(s.row), i]), (i) => { state.spectra = i; drawSpectra(); });
  choice(at("spectra-parts"), Object.entries(parts).map(([part, word]) => [word, part]), (part) => { state.part = part; drawSpectra(); });

  function drawAll() {
    drawRuns();
    drawCurves();
    if (data.spectra.length) drawSpectra();
    if (data.orthonormality.length) drawOrthonormality();
  }

  // On paper the table of runs is open.
  let opened = [];
  addEventListener("beforeprint", () => { opened = [...document.querySelectorAll("details.printed:not([open])")]; opened.forEach((d) => { d.open = true; }); });
  addEventListener("afterprint", () => opened.forEach((d) => { d.open = false; }));
  let width = 0;
  new ResizeObserver(() => { if (innerWidth !== width) { width = innerWidth; drawAll(); } }).observe(document.body);
})();
