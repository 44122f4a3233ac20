// The slider of the history: arrow keys step through the changes, a drag snaps to a close change, the right end is now.
(function () {
  "use strict";

  var SNAP = 1 / 80, WAIT_MS = 250, waiting = null;
  var isMoved = false;  // by the user, not submitted yet

  var now = JSON.parse(document.documentElement.dataset.texts || "{}").now || "now";

  function slider(event) {
    var field = event.target;
    return field.type === "range" && field.form && field.form.dataset.moments !== undefined ? field : null;
  }

  function momentsOf(field) {
    return field.form.dataset.moments.split(",").filter(Boolean).map(Number);
  }

  // Like the server's, by the board's clock.
  function clock(ms, nowMs) {
    var time = new Date(ms), today = new Date(nowMs);
    var clock = time.toISOString().slice(11, 19) + " UTC";
    var isToday = time.toISOString().slice(0, 10) === today.toISOString().slice(0, 10);
    var day = time.getUTCDate() + " " + time.toLocaleString("en", { month: "short", timeZone: "UTC" });
    return isToday ? clock : day + " " + clock;
  }

  function show(field) {
    var words = Number(field.value) >= Number(field.max) ? now : clock(Number(field.value), Number(field.form.dataset.nowMs));
    field.setAttribute("aria-valuetext", words);
    var output = field.form.querySelector("output time");
    if (!output || !output.firstChild || output.firstChild.nodeValue === words) return;
    output.firstChild.nodeValue = words;
    if (words === now) output.removeAttribute("datetime");
    else output.setAttribute("datetime", new Date(Number(field.value)).toISOString());
  }

  function next(moments, value, by, max) {
    if (by > 0) return moments.filter(function (one) { return one > value; })[by - 1] || max;
    var before = moments.filter(function (one) { return one < value; });
    return before.length ? before[Math.max(0, before.length + by)] : null;
  }

  var STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };

  document.addEventListener("keydown", function (event) {
    var field = slider(event), by = STEPS[event.key];
    if (!field || !by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    var to = next(momentsOf(field), Number(field.value), by, Number(field.max));
    if (to === null) return;
    field.value = to;
    isMoved = true;
    show(field);
    window.clearTimeout(waiting);
    waiting = window.setTimeout(function () { field.dispatchEvent(new Event("change", { bubbles: true })); }, WAIT_MS);
  });

  document.addEventListener("input", function (event) {
    var field = slider(event);
    if (!field) return;
    isMoved = true;
    show(field);
  });

  // Before the form is submitted: snap to a close change; now needs no parameter.
  document.addEventListener("change", function (event) {
    var field = slider(event);
    if (!field) return;
    isMoved = false;
    var value = Number(field.value), max = Number(field.max), width = max - Number(field.min);
    var near = momentsOf(field).concat(max).reduce(function (best, one) {
      return Math.abs(one - value) < Math.abs(best - value) ? one : best;
    }, Infinity);
    if (Math.abs(near - value) < width * SNAP) field.value = near;
    show(field);
    field.name = Number(field.value) >= max ? "" : "at";
  }, true);

  // A late response, after another time was requested.
  function isLate(said, max) {
    var at = new URLSearchParams(location.search).get("at");
    return at === null ? said !== max : /^\d+$/.test(at) && said !== at;
  }

  // Take over a new value from the server, except while the user moves the slider.
  new MutationObserver(function (changes) {
    changes.forEach(function (one) {
      var field = one.target;
      if (field.type !== "range" || !field.form || field.form.dataset.moments === undefined) return;
      var said = field.getAttribute("value");
      if (said !== null && field.value !== said && !isMoved && !isLate(said, field.max)) field.value = said;
      show(field);
    });
  }).observe(document.documentElement, { subtree: true, attributes: true, attributeFilter: ["value", "max"] });
})();
