// Local time beside UTC: every <time class="moment"> gets `data-local`, which the style shows in brackets. The observer
// runs between parsing and painting, so that nothing moves once it is seen. A zone that equals UTC adds nothing.
(function () {
  "use strict";

  function two(number) { return (number < 10 ? "0" : "") + number; }

  // 18:51, with the day before it where the local day is another one.
  function local(text) {
    var time = new Date(text);
    if (isNaN(time) || time.getTimezoneOffset() === 0) return null;
    var clock = two(time.getHours()) + ":" + two(time.getMinutes());
    if (time.getDate() === time.getUTCDate()) return clock;
    return time.getDate() + " " + time.toLocaleString("en", { month: "short" }) + " " + clock;
  }

  function mark(element) {
    var text = local(element.getAttribute("datetime") || "");
    if (text === null) element.removeAttribute("data-local");
    else if (element.getAttribute("data-local") !== text) element.setAttribute("data-local", text);
  }

  function markWithin(node) {
    if (node.nodeType !== 1) return;
    if (node.matches("time.moment")) mark(node);
    node.querySelectorAll("time.moment").forEach(mark);
    var zone = node.querySelector("#zone");
    if (zone && (local("2026-01-01T12:00:00Z") || local("2026-07-01T12:00:00Z"))) zone.hidden = false;
  }

  new MutationObserver(function (changes) {
    changes.forEach(function (change) {
      if (change.type === "attributes") markWithin(change.target);
      else change.addedNodes.forEach(markWithin);
    });
  }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["datetime"] });
})();
