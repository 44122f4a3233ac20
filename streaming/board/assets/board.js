// Browser side: pages without a reload, an update every few seconds that touches only what changed, counting ages, the
// theme, announcements, and the zoom of charts.
(function () {
  "use strict";

  var TITLE = "balancewatch", ON_ITS_WAY_MS = 2000, PATIENCE_MS = 60000, SKEW_HEADER = "X-Now-Ms";
  var page = document.getElementById("page"), connection = document.getElementById("connection");
  var everyMs = Number(page.dataset.everyMs), lastBeat = Date.now(), skewMs = 0;
  var shownUrl = null, shownKey = null, timer = null, alertsBefore = null;
  var pending = null, asked = 0, shown = 0;
  var hasEnded = false;  // the session; the board answers 401

  // The board's texts, which the frame has in other languages than English.
  var texts = JSON.parse(document.documentElement.dataset.texts || "{}");

  function say(text, facts) {
    return (texts[text] || text).replace(/\{(\w+)\}/g, function (_, name) { return facts[name]; });
  }

  function here() { return location.pathname + location.search; }

  // Ages

  function span(ms) {
    var seconds = Math.max(0, Math.floor(ms / 1000));
    if (seconds < 60) return say("{number} s", { number: seconds });
    var minutes = Math.floor(seconds / 60);
    if (minutes < 60) return say("{number} min", { number: minutes });
    var hours = Math.floor(minutes / 60);
    minutes = minutes % 60;
    if (hours < 24) return two(say("{number} h", { number: hours }), minutes && say("{number} min", { number: minutes }));
    var days = Math.floor(hours / 24);
    hours = hours % 24;
    return two(say("{number} d", { number: days }), hours && say("{number} h", { number: hours }));
  }

  function two(first, second) { return second ? first + " " + second : first; }

  function ago(ms) {
    if (ms <= -1000) return say("in {span}", { span: span(-ms) });
    return ms >= 1000 ? say("{span} ago", { span: span(ms) }) : say("now");
  }

  function countAges() {
    var now = Date.now() + skewMs;
    document.querySelectorAll("time.age[data-ms]").forEach(function (element) {
      var text = ago(now - Number(element.dataset.ms));
      var node = element.firstChild;
      if (node && node.nodeValue !== text) node.nodeValue = text;
    });
    var late = Date.now() - lastBeat;
    var isLost = hasEnded || late > Math.max(3 * everyMs, 10000);
    if (hasEnded) showEnd();
    else if (isLost) {
      connection.textContent = say("The board has not answered for {span}. This page is out of date.", { span: span(late) });
    }
    if (connection.hidden === isLost) connection.hidden = !isLost;
  }

  function showEnd() {
    if (connection.querySelector("a")) return;
    var again = document.createElement("a");
    again.href = "";  // reload: the board asks for the token, then returns here
    again.dataset.load = "anew";
    again.textContent = say("Log in again");
    connection.replaceChildren(say("Your session has ended. This page is out of date. "), again);
  }

  // Updates: change the shown nodes into the new ones. Nodes with an id keep their node, focus and scroll position.

  function key(node) { return node.nodeType === 1 && node.id ? node.nodeName + "#" + node.id : null; }

  function isSame(a, b) {
    return a.nodeType === b.nodeType && a.nodeName === b.nodeName && key(a) === key(b);
  }

  function morph(from, to) {
    if (from.nodeType !== 1) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    if (from.isEqualNode(to) || (from.matches("time.age") && from.dataset.ms === to.dataset.ms)) return;
    // A new value from the server replaces what was typed; moments.js sets a range.
    var field = from.nodeName === "INPUT" && from.type !== "range";
    field = field && from.getAttribute("value") !== to.getAttribute("value");
    morphAttributes(from, to);
    if (field) from.value = to.value;
    morphChildren(from, to);
    if (from.nodeName === "SELECT" && from.value !== to.value) from.value = to.value;
  }

  function morphAttributes(from, to) {
    var isZoomed = from.nodeName === "svg" && from.classList.contains("zoomed");
    Array.from(to.attributes).forEach(function (one) {
      if (isZoomed && /^(x|width|class)$/.test(one.name)) return;
      if (from.getAttribute(one.name) !== one.value) from.setAttribute(one.name, one.value);
    });
    Array.from(from.attributes).forEach(function (one) {
      if (one.name === "open" || one.name === "data-local" || isZoomed || to.hasAttribute(one.name)) return;
      from.removeAttribute(one.name);
    });
  }

  function morphChildren(from, to) {
    var wanted = Array.from(to.childNodes), known = {}, kept = {};
    wanted.forEach(function (node) { if (key(node)) kept[key(node)] = true; });
    Array.from(from.childNodes).forEach(function (node) {
      if (!key(node)) return;
      if (kept[key(node)]) known[key(node)] = node; else node.remove();
    });
    var at = from.firstChild;
    wanted.forEach(function (node) {
      var match = key(node) ? known[key(node)] : null, next = at;
      if (!key(node)) {
        while (next && !key(next) && !isSame(next, node)) next = next.nextSibling;
        if (next && !key(next)) match = next;
        while (match && at !== match) {
          var gone = at;
          at = at.nextSibling;
          gone.remove();
        }
      }
      if (!match) { from.insertBefore(document.importNode(node, true), at); return; }
      if (match === at) at = at.nextSibling; else from.insertBefore(match, at);
      morph(match, node);
    });
    while (at) {
      var rest = at.nextSibling;
      at.remove();
      at = rest;
    }
  }

  function announce(alerts) {
    if (!alerts) return;
    if (alertsBefore) {
      var fresh = Object.keys(alerts.newest).filter(function (id) { return !(id in alertsBefore); });
      if (fresh.length) {
        var words = fresh.slice(0, 3).map(function (id) { return alerts.newest[id]; }).join("; ");
        var more = fresh.length > 3 ? say(" and {number} more", { number: fresh.length - 3 }) : "";
        document.getElementById("announce").textContent = say("Firing now: {alerts}", { alerts: words + more });
      }
    }
    alertsBefore = alerts.newest;
  }

  // After each update: title, navigation, announcement; on another page, the focus goes to its heading.
  function settle(isOther) {
    var title = document.getElementById("title"), alerts = JSON.parse(page.dataset.alerts);
    document.title = (alerts && alerts.count ? "(" + alerts.count + ") " : "") + title.textContent + " · " + TITLE;
    document.querySelectorAll("#nav a").forEach(function (link) {
      var isHere = link.getAttribute("href") === location.pathname;
      if (isHere === link.hasAttribute("aria-current")) return;
      if (isHere) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
    });
    announce(alerts);
    if (isOther) {
      title.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
    countAges();
  }

  function show(url, answer, text) {
    var answered = new DOMParser().parseFromString(text, "text/html"), read = answered.getElementById("page");
    var isTranslated = answered.documentElement.lang !== document.documentElement.lang;
    if (!read || isTranslated) { location.reload(); return; }  // another board, a proxy or another language
    var isOther = shownUrl.split("?")[0] !== url.split("?")[0];
    shownUrl = url;
    shownKey = answer.headers.get("ETag");
    if (isOther) document.querySelectorAll("svg.zoomed").forEach(resetZoom);
    morph(page, read);
    settle(isOther);
  }

  // One request at a time for a URL: a slow page is not asked for again while it is being made.
  function load() {
    var url = here(), now = Date.now();
    window.clearTimeout(timer);
    timer = window.setTimeout(load, everyMs);
    if (pending && pending.url === url && now - pending.at < PATIENCE_MS) return;
    var mine = pending = { url: url, at: now }, number = ++asked;
    var headers = url === shownUrl && shownKey ? { "If-None-Match": shownKey } : {};
    fetch(url, { headers: headers, cache: "no-store" }).then(function (answer) {
      hasEnded = answer.status === 401;
      if (hasEnded) { countAges(); return null; }
      if (!answer.headers.has(SKEW_HEADER)) throw new Error("another server answers");
      lastBeat = Date.now();
      // Ages follow the board's clock; the transit time of a response is not a difference.
      var skew = Number(answer.headers.get(SKEW_HEADER)) - lastBeat;
      if (Math.abs(skew - skewMs) > ON_ITS_WAY_MS) skewMs = skew;
      if (answer.status === 304) { countAges(); return null; }
      return answer.text().then(function (text) {
        if (here() !== url || number < shown) return;  // overtaken by a newer answer
        shown = number;
        show(url, answer, text);
      });
    }).catch(function () { /* reported once it lasts */ }).finally(function () {
      if (pending === mine) pending = null;
    });
  }

  function go(url) {
    if (url === here()) return;
    history.pushState({}, "", url);
    load();
  }

  window.addEventListener("popstate", load);

  document.addEventListener("click", function (event) {
    if (event.defaultPrevented || event.button !== 0 || !event.target.closest) return;
    var bar = event.target.closest("[data-href]");
    if (bar) { go(bar.dataset.href); return; }
    var link = event.target.closest("a[href]");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target || link.download) return;
    var href = link.getAttribute("href");
    if (href === "#page") { page.focus(); event.preventDefault(); return; }
    if (!href.startsWith("/") || href.startsWith("//") || href.startsWith("/runbooks") || link.dataset.load) return;
    event.preventDefault();
    go(href);
  });

  function submit(form) {
    var action = new URL(form.getAttribute("action"), location.href), asked = new URLSearchParams(action.search);
    new FormData(form).forEach(function (value, name) {
      var text = String(value).trim();
      if (text) asked.set(name, text); else asked.delete(name);
    });
    var query = asked.toString();
    go(action.pathname + (query ? "?" + query : ""));
  }

  document.addEventListener("submit", function (event) {
    if (event.target.method !== "get") return;
    event.preventDefault();
    submit(event.target);
  });

  document.addEventListener("change", function (event) {
    var field = event.target;
    if (field.form && field.form.method === "get" && (field.tagName === "SELECT" || field.type === "range")) submit(field.form);
  });

  // Theme

  function theme() { return document.documentElement.dataset.theme || "system"; }

  function nameTheme() {
    document.getElementById("theme-word").textContent = { system: say("System"), light: say("Light"), dark: say("Dark") }[theme()];
  }

  document.getElementById("theme").addEventListener("click", function () {
    var next = { system: "light", light: "dark", dark: "system" }[theme()];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      if (next === "system") localStorage.removeItem("balancewatch-theme");
      else localStorage.setItem("balancewatch-theme", next);
    } catch (refused) { /* private windows store nothing */ }
    nameTheme();
  });

  // Zoom of a chart: drag over a part of the time, double-click for all. Its places are in percent of `.zoom`.

  var dragged = null;

  function resetZoom(inner) {
    inner.setAttribute("x", "0");
    inner.setAttribute("width", "100%");
    inner.classList.remove("zoomed");
  }

  document.addEventListener("pointerdown", function (event) {
    var plot = event.target.closest ? event.target.closest("svg.plot") : null;
    dragged = null;
    if (!plot || event.button !== 0 || event.pointerType === "touch") return;
    dragged = { plot: plot, from: event.clientX, box: plot.getBoundingClientRect(), mark: null };
    event.preventDefault();  // no selection of text
  });

  document.addEventListener("pointermove", function (event) {
    if (!dragged || Math.abs(event.clientX - dragged.from) < 5) return;
    if (!dragged.mark) {
      dragged.mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      dragged.mark.setAttribute("class", "dragged");
      dragged.mark.setAttribute("height", "100%");
      dragged.plot.appendChild(dragged.mark);
    }
    dragged.mark.setAttribute("x", Math.min(event.clientX, dragged.from) - dragged.box.left);
    dragged.mark.setAttribute("width", Math.abs(event.clientX - dragged.from));
  });

  document.addEventListener("pointerup", function (event) {
    if (!dragged || !dragged.mark) { dragged = null; return; }
    var box = dragged.box, inner = dragged.plot.querySelector(".zoom");
    dragged.mark.remove();
    var before = { x: parseFloat(inner.getAttribute("x")), width: parseFloat(inner.getAttribute("width")) };
    var ends = [dragged.from, event.clientX].map(function (x) {  // as a share of all the time shown
      var share = Math.min(Math.max((x - box.left) / box.width, 0), 1) * 100;
      return (share - before.x) / before.width;
    }).sort(function (a, b) { return a - b; });
    var factor = 1 / Math.max(ends[1] - ends[0], 1e-4);
    inner.setAttribute("x", -100 * factor * ends[0] + "%");
    inner.setAttribute("width", 100 * factor + "%");
    inner.classList.add("zoomed");
    dragged = null;
    document.addEventListener("click", function (click) { click.stopPropagation(); }, { capture: true, once: true });
  });

  document.addEventListener("dblclick", function (event) {
    var plot = event.target.closest ? event.target.closest("svg.plot") : null;
    if (plot) resetZoom(plot.querySelector(".zoom"));
  });

  shownUrl = here();
  nameTheme();
  settle(false);
  timer = window.setTimeout(load, everyMs);
  window.setInterval(countAges, 1000);
})();
