// Browser side: links and forms without a page load, counting ages, the theme, and announcements.
(function () {
  "use strict";

  var board = (window.balancewatch = window.balancewatch || {});
  var TITLE = "balancewatch", ON_ITS_WAY_MS = 2000;
  var lastBeat = Date.now(), everyMs = 5000, skewMs = 0, lastPath = null, lastShown = null, alertsBefore = null;
  var hasEnded = false;  // the session; the board answers 401

  function span(ms) {
    var seconds = Math.max(0, Math.floor(ms / 1000));
    if (seconds < 60) return seconds + " s";
    var minutes = Math.floor(seconds / 60);
    if (minutes < 60) return minutes + " min";
    var hours = Math.floor(minutes / 60);
    minutes = minutes % 60;
    if (hours < 24) return minutes ? hours + " h " + minutes + " min" : hours + " h";
    var days = Math.floor(hours / 24);
    hours = hours % 24;
    return hours ? days + " d " + hours + " h" : days + " d";
  }

  function ago(ms) {
    if (ms <= -1000) return "in " + span(-ms);
    return ms >= 1000 ? span(ms) + " ago" : "now";
  }

  function countAges() {
    var now = Date.now() + skewMs;
    document.querySelectorAll("time.age[data-ms]").forEach(function (element) {
      var text = ago(now - Number(element.dataset.ms));
      var node = element.firstChild;
      if (node && node.nodeValue !== text) node.nodeValue = text;
    });
    var late = Date.now() - lastBeat, box = document.getElementById("connection");
    if (!box) return;
    var isLost = hasEnded || late > Math.max(3 * everyMs, 10000);
    if (hasEnded) showEnd(box);
    else if (isLost) box.textContent = "The board has not answered for " + span(late) + ". This page is out of date.";
    if (box.hidden === isLost) box.hidden = !isLost;
  }

  function showEnd(box) {
    if (box.querySelector("a")) return;
    var again = document.createElement("a");
    again.href = "";  // reload: the board asks for the token, then returns here
    again.textContent = "Log in again";
    box.replaceChildren("Your session has ended. This page is out of date. ", again);
  }

  var ask = window.fetch;
  window.fetch = function () {
    return ask.apply(window, arguments).then(function (answer) {
      if (answer.status === 401) { hasEnded = true; countAges(); }
      return answer;
    });
  };

  var go = board.go = function (url) {
    if (url === location.pathname + location.search) return;
    history.pushState({}, "", url);
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
  };

  document.addEventListener("click", function (event) {
    var link = event.target.closest ? event.target.closest("a[href]") : null;
    if (!link || event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target || link.download) return;
    var href = link.getAttribute("href");
    if (href === "#page") { document.getElementById("page").focus(); event.preventDefault(); return; }
    if (!href.startsWith("/") || href.startsWith("//") || link.dataset.load) return;
    event.preventDefault();
    go(href);
  });

  function submit(form) {
    var asked = new URLSearchParams();
    var action = new URL(form.getAttribute("action"), location.href);
    action.searchParams.forEach(function (value, name) { asked.set(name, value); });
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

  function theme() { return document.documentElement.dataset.theme || "system"; }

  function nameTheme() {
    var word = document.getElementById("theme-word");
    var name = { system: "System", light: "Light", dark: "Dark" }[theme()];
    if (word && word.textContent !== name) word.textContent = name;
  }

  document.addEventListener("click", function (event) {
    if (!event.target.closest || !event.target.closest("#theme")) return;
    var next = { system: "light", light: "dark", dark: "system" }[theme()];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      if (next === "system") localStorage.removeItem("balancewatch-theme");
      else localStorage.setItem("balancewatch-theme", next);
    } catch (refused) { /* private windows store nothing */ }
    nameTheme();
  });

  function announce(alerts) {
    if (!alerts) return;
    var newest = alerts.newest;
    if (alertsBefore) {
      var fresh = Object.keys(newest).filter(function (id) { return !(id in alertsBefore); });
      if (fresh.length) {
        var words = fresh.slice(0, 3).map(function (id) { return newest[id]; }).join("; ");
        var more = fresh.length > 3 ? " and " + (fresh.length - 3) + " more" : "";
        document.getElementById("announce").textContent = "Firing now: " + words + more;
      }
    }
    alertsBefore = newest;
  }

  function settle(alerts) {
    var title = document.getElementById("title");
    var firing = alerts ? alerts.count : 0;
    document.title = (firing ? "(" + firing + ") " : "") + (title ? title.textContent + " · " : "") + TITLE;
    document.querySelectorAll("#nav a").forEach(function (link) {
      var isHere = link.getAttribute("href") === location.pathname;
      if (isHere !== link.hasAttribute("aria-current")) {
        if (isHere) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
      }
    });
    if (lastPath !== null && lastPath !== location.pathname && title) {
      title.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
    lastPath = location.pathname;
    nameTheme();
    countAges();
  }

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.board = {
    // Handle a response: a changed body, the firing incidents, and the heartbeat.
    arrived: function (body, alerts, beat) {
      lastBeat = Date.now();
      hasEnded = false;
      if (beat && beat.now_ms) {
        everyMs = beat.every_ms;
        // Ages follow the board's clock; the transit time of a response is not a difference.
        var skew = beat.now_ms - lastBeat;
        if (Math.abs(skew - skewMs) > ON_ITS_WAY_MS) skewMs = skew;
      }
      if (body && body.key !== lastShown) {
        lastShown = body.key;
        board.show(body.tree, function () { announce(alerts); settle(alerts); });
      }
      return window.dash_clientside.no_update;
    }
  };

  window.setInterval(countAges, 1000);
})();
