// The page's body: the server's component tree, rendered by React under stable keys, so that unchanged parts keep their
// node, focus, selection and scroll. Plotly draws figures; it is loaded with the first one.
(function () {
  "use strict";

  var board = (window.balancewatch = window.balancewatch || {});
  var UNWANTED = { n_clicks: 1, n_clicks_timestamp: 1, disable_n_clicks: 1, key: 1, children: 1 };
  var TAG = /^(?!Script$|Iframe$|Embed$|Frame$|ObjectEl$|Base$|Link$|Meta$)[A-Z][A-Za-z0-9]*$/;
  var root = null, plotly = null;

  function children(of) {
    if (of === null || of === undefined) return [];
    return (Array.isArray(of) ? of : [of]).map(element);
  }

  function element(node, number) {
    if (node === null || node === undefined || typeof node === "boolean") return null;
    if (typeof node !== "object") return String(node);
    if (Array.isArray(node)) return React.createElement(React.Fragment, { key: number }, children(node));
    var props = node.props, key = props.key || props.id || String(number);
    if (node.namespace === "dash_core_components" && node.type === "Graph") {
      return React.createElement(Figure, Object.assign({}, props, { key: key }));
    }
    if (node.namespace === "dash_core_components" && node.type === "Input") return input(props, key);
    if (node.namespace !== "dash_html_components" || !TAG.test(node.type)) {
      throw new Error("the board does not show " + node.namespace + "." + node.type);
    }
    var given = { key: key };
    Object.keys(props).forEach(function (name) { if (!UNWANTED[name]) given[name] = props[name]; });
    return React.createElement.apply(null, [node.type.toLowerCase(), given].concat(children(props.children)));
  }

  // A new value from the server makes a new field; otherwise typed text stays. A range keeps its node and focus:
  // moments.js sets its new value.
  function input(props, key) {
    var given = { key: props.type === "range" ? key : key + "=" + props.value, defaultValue: props.value };
    ["id", "name", "type", "placeholder", "min", "max", "step", "maxLength", "list", "autoComplete", "className", "disabled"]
      .forEach(function (name) { if (props[name] !== undefined && props[name] !== null) given[name] = props[name]; });
    if (props.size) given.size = Number(props.size);
    return React.createElement("input", given);
  }

  function loadPlotly() {
    if (!plotly) {
      plotly = new Promise(function (resolve, reject) {
        var script = document.createElement("script");
        script.src = document.querySelector('meta[name="plotly"]').content;
        script.onload = function () { resolve(window.Plotly); };
        script.onerror = function () { plotly = null; reject(new Error("Plotly cannot be loaded")); };
        document.head.appendChild(script);
      });
    }
    return plotly;
  }

  function Figure(props) {
    var node = React.useRef(null), text = JSON.stringify(props.figure);
    React.useEffect(function () {
      var isGone = false;
      loadPlotly().then(function (drawing) {
        if (isGone || !node.current) return;
        var figure = JSON.parse(text), layout = figure.layout || {};
        if (window.matchMedia("(pointer: coarse)").matches) layout.dragmode = false;
        var config = Object.assign({ displayModeBar: false, responsive: true, doubleClick: "reset" }, props.config);
        drawing.react(node.current, figure.data, layout, config).then(function (drawn) {
          if (drawn.isReady) return;
          drawn.isReady = true;
          drawn.on("plotly_click", function (event) {
            var href = event.points.length && event.points[0].customdata;
            if (Array.isArray(href)) href = href[0];
            if (typeof href === "string" && href.charAt(0) === "/" && href.charAt(1) !== "/") board.go(href);
          });
        });
      }).catch(function (error) { if (node.current) node.current.textContent = error.message; });
      return function () { isGone = true; };
    }, [text]);
    React.useEffect(function () {
      var drawn = node.current;
      return function () { if (window.Plotly && drawn) window.Plotly.purge(drawn); };
    }, []);
    var layout = (props.figure && props.figure.layout) || {};
    var height = layout.height ? { height: layout.height + "px" } : undefined;
    return React.createElement("div", { id: props.id, className: "figure " + (props.className || ""), style: height, ref: node });
  }

  function Body(props) {
    React.useLayoutEffect(function () { props.settled(); });
    return element(props.tree, 0);
  }

  // An error lasts until the page's text changes.
  class Fence extends React.Component {
    constructor(props) { super(props); this.state = { error: null, text: props.text }; }
    static getDerivedStateFromProps(props, state) {
      return props.text === state.text ? null : { error: null, text: props.text };
    }
    static getDerivedStateFromError(error) { return { error: error }; }
    render() {
      if (!this.state.error) return this.props.children;
      return React.createElement("p", { className: "notice notice-error", role: "alert" },
        "✖ This page cannot be shown: " + this.state.error.message);
    }
  }

  // `settled` is called after each update of the document.
  board.show = function (text, settled) {
    if (!root) root = ReactDOM.createRoot(document.getElementById("body"));
    root.render(React.createElement(Fence, { key: "fence", text: text },
      React.createElement(Body, { tree: JSON.parse(text), settled: settled })));
  };
})();
