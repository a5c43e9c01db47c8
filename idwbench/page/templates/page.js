"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const find = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // Theme
  const themeButton = document.getElementById("theme");
  const isDark = () => root.dataset.theme === "dark";
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const colour = (light) => (isDark() && data.onDark[light]) || light;
  function setTheme(dark) {
    root.dataset.theme = dark ? "dark" : "light";
    // It says what it switches to.
    themeButton.textContent = dark ? "Light" : "Dark";
    find("[data-colour]").forEach((one) => one.setAttribute("stroke", colour(one.dataset.colour)));
    find(".plot[data-drawn]").forEach((one) => delete one.dataset.drawn);
    drawVisible();
  }
  themeButton.addEventListener("click", () => setTheme((chosen = !isDark())));
  preferred.addEventListener("change", () => chosen === null && setTheme(preferred.matches));

  // Charts
  function chartConfig() {
    const style = getComputedStyle(root);
    const value = (name) => style.getPropertyValue(name).trim();
    const [ink, quiet, rule] = [value("--ink"), value("--quiet"), value("--rule")];
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: null,
      font,
      mark: { aria: false },
      axis: {
        aria: false,
        labelColor: quiet, titleColor: quiet, titleFontWeight: "normal", titleFontSize: 12, labelFontSize: 11.5,
        gridColor: rule, gridOpacity: 0.7, domainColor: rule, tickColor: rule, titlePadding: 6,
      },
      axisY: { domain: false, ticks: false, labelPadding: 6 },
      text: { color: ink },
      view: { stroke: null },
    };
  }
  function themed(spec) {
    if (!isDark()) return spec;
    const text = JSON.stringify(spec).replace(/"#[0-9A-F]{6}"/g, (found) => `"${colour(found.slice(1, -1))}"`);
    return JSON.parse(text);
  }
  function draw(element) {
    element.dataset.drawn = "";
    vegaEmbed(element, themed(data.chart[element.id]), {
      actions: false, ast: true, renderer: "svg", config: chartConfig(), tooltip: { theme: "custom", disableDefaultStyle: true },
    }).catch((error) => {
      element.textContent = `This chart cannot be drawn: ${error.message}`;
    });
  }
  const near = "IntersectionObserver" in window
    ? new IntersectionObserver((entries) => {
        for (const entry of entries) {
          if (entry.isIntersecting && !("drawn" in entry.target.dataset)) draw(entry.target);
        }
      }, { rootMargin: "400px" })
    : null;
  function drawVisible() {
    for (const element of find(".plot")) {
      if (near === null) {
        if (!element.closest("[hidden]") && !("drawn" in element.dataset)) draw(element);
      } else {
        near.unobserve(element);
        near.observe(element);
      }
    }
  }
  // A printed page has the charts that nobody has scrolled to.
  addEventListener("beforeprint", () => {
    for (const element of find(".plot")) {
      if (!element.closest("[hidden]") && !("drawn" in element.dataset)) draw(element);
    }
  });

  // Tables
  const number = (text) => {
    const found = parseFloat(text.replace(/,/g, "").replace("−", "-"));
    return Number.isNaN(found) ? null : found;
  };
  function compare(column, a, b) {
    const [x, y] = [column.cells[a], column.cells[b]];
    if (!column.numeric) return x.localeCompare(y, "en", { numeric: true });
    const [m, n] = [number(x), number(y)];
    return m - n;
  }
  const isMissing = (column, row) => (column.numeric ? number(column.cells[row]) === null : column.cells[row] === "");

  function buildTable(place) {
    const { columns, best } = data.table[place.id];
    const size = columns.length ? columns[0].cells.length : 0;
    const marks = best.map((rows) => new Set(rows));
    const body = make("tbody");
    const status = make("p", { class: "shown", role: "status" });
    const filters = [];
    let order = [...Array(size).keys()];

    function show() {
      const kept = order.filter((row) => filters.every((accepts) => accepts(row)));
      body.replaceChildren(
        ...kept.map((row) =>
          make("tr", {}, ...columns.map((column, place) => {
            const classes = [column.numeric && "number", marks[place].has(row) && "best"].filter(Boolean);
            return make("td", classes.length ? { class: classes.join(" ") } : {}, column.cells[row]);
          })),
        ),
      );
      if (!kept.length) {
        body.append(make("tr", {}, make("td", { colspan: columns.length, class: "none" }, "No row has all of this.")));
      }
      status.textContent = `${kept.length.toLocaleString("en")} of ${size.toLocaleString("en")} rows`;
    }

    const heads = columns.map((column, place) => {
      const button = make("button", { type: "button" }, column.name);
      const head = make("th", column.numeric ? { scope: "col", class: "number" } : { scope: "col" }, button);
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        // The best of a metric is what one looks for first; ranks and texts begin with the lowest.
        const first = column.numeric && place > 0 ? "descending" : "ascending";
        const next = now === null ? first : now === "ascending" ? "descending" : "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        order = [...Array(size).keys()].sort((a, b) => {
          const [x, y] = [isMissing(column, a), isMissing(column, b)];
          return x || y ? x - y || a - b : sign * compare(column, a, b) || a - b;
        });
        show();
      });
      return head;
    });
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body);
    const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": place.dataset.label }, table);
    if ("filters" in place.dataset && size > 3) place.append(filterBar(columns, size, filters, show, status));
    place.append(scroll);
    show();
  }

  function filterBar(columns, size, filters, show, status) {
    const bar = make("div", { class: "filters", role: "search" });
    const search = make("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    bar.append(make("label", {}, "Search", search));
    let words = [];
    search.addEventListener("input", () => {
      words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      show();
    });
    filters.push((row) => words.every((word) => columns.some((one) => one.cells[row].toLowerCase().includes(word))));
    for (const column of columns) {
      if (["rank", "n", "diverged", "learned parameters"].includes(column.name) || column.cells.some((text) => text.includes("±"))) continue;
      const values = [...new Set(column.cells)];
      if (values.length < 2 || values.length > 30 || (size > 4 && values.length === size)) continue;
      values.sort((a, b) => (column.numeric ? (number(a) ?? Infinity) - (number(b) ?? Infinity) : a.localeCompare(b, "en")));
      const select = make("select", {}, make("option", { value: "" }, "all"));
      values.forEach((value, place) => select.append(make("option", { value: place }, value || "none")));
      select.addEventListener("change", show);
      filters.push((row) => select.value === "" || column.cells[row] === values[Number(select.value)]);
      bar.append(make("label", {}, column.name, select));
    }
    bar.append(status);
    return bar;
  }

  // Prototypes
  function buildKeys(place) {
    const grid = data.keys[place.id];
    const [tiles, detail] = [place.querySelector(".tiles"), place.querySelector(".detail")];
    const buttons = grid.keys.map((key, index) => {
      const name = grid.classes[key.label];
      const button = make(
        "button",
        { type: "button", class: "tile", "aria-pressed": "false", "aria-label": `Key ${key.number}, class ${name}` },
        make("img", { src: key.picture, alt: "" }), name,
      );
      button.addEventListener("click", () => {
        buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
        detail.replaceChildren(...keyDetail(grid, key));
      });
      return button;
    });
    tiles.append(...buttons);
    detail.append(make("p", {}, "Choose a key to see its values and what it resembles."));
  }
  function keyDetail(grid, key) {
    // Bars begin at 0: those of negative values point left.
    const lowest = Math.min(0, ...key.values);
    const range = Math.max(0, ...key.values) - lowest || 1;
    const rows = key.values.map((value, place) => {
      const bar = make("i", value < 0 ? { class: "below" } : {});
      bar.style.marginLeft = `${(100 * (Math.min(0, value) - lowest)) / range}%`;
      bar.style.width = `${(100 * Math.abs(value)) / range}%`;
      return make("tr", {},
        make("th", { scope: "row" }, grid.classes[place]),
        make("td", { class: "number" }, value.toPrecision(3).replace("-", "−")),
        make("td", { class: "track", "aria-hidden": "true" }, bar));
    });
    const found = [make("h4", {}, `Key ${key.number}: class ${grid.classes[key.label]}`), make("table", {}, make("tbody", {}, ...rows))];
    if (key.nearest) {
      const items = key.nearest.map(({ row, distance }) => {
        const { picture, label } = grid.images[row];
        const name = make("span", label === key.label ? {} : { class: "differs" }, grid.classes[label]);
        return make("li", {}, make("img", { src: picture, alt: `Training image ${row}` }), name, make("br"), distance.toPrecision(3));
      });
      found.push(make("p", {}, "Nearest training images, with class and distance"), make("ul", { class: "nearest" }, ...items));
    }
    return found;
  }

  // Groups
  const groups = find(".group");
  const picker = document.getElementById("group");
  function showGroup(id) {
    for (const group of groups) group.hidden = group.id !== id;
    if (picker) picker.value = id;
    const shown = document.getElementById(id);
    const parts = [...find(".part", shown ?? document.createElement("div")), ...find("main > .part")];
    document.getElementById("sections").replaceChildren(
      ...parts.map((part) => make("li", {}, make("a", { href: `#${part.id}` }, part.dataset.name))),
    );
    drawVisible();
  }
  const groupOfHash = () => groups.find((group) => (location.hash.slice(1) + "-").startsWith(`${group.id}-`));
  picker?.addEventListener("change", () => {
    history.replaceState(null, "", `#${picker.value}`);
    showGroup(picker.value);
    scrollTo(0, 0);
  });
  addEventListener("hashchange", () => {
    const group = groupOfHash();
    if (group?.hidden) {
      showGroup(group.id);
      document.getElementById(location.hash.slice(1))?.scrollIntoView();
    }
  });

  find(".table").forEach(buildTable);
  find(".keys").forEach(buildKeys);
  showGroup((groupOfHash() ?? groups[0])?.id);
  setTheme(preferred.matches);
})();
