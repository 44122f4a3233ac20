"""The matrix of queues and clients as a table with its legend. Each cell has a sign and a text for screen readers."""

from collections.abc import Iterable, Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.attributes import aria
from streaming.board.drawing.since import verdict_since_words
from streaming.board.drawing.verdicts import VERDICTS, verdict_mark
from streaming.board.queries.group import Queue
from streaming.board.queries.queue_matrix import Cell, Client, Line, Matrix
from streaming.board.queries.verdict_order import WRONG, worst_first
from udfs.groups.verdict_reason import VERDICT_REASONS

CERTAIN_SINCE = "when the data first proved the verdict; its alert may begin earlier, with the first sign"


def break_client_id(client_id: str) -> str:
    """Break a ClientId into lines: host, `@` process or instance name, `#` the suffix of 4.9.0 and later."""
    return client_id.replace("@", "\n@").replace("#", "\n#")


def matrix_table(
    id_: str,
    caption: str,
    matrix: Matrix,
    now_ms: int,
    *,
    hrefs: Mapping[str, str],
    incidents: Mapping[str, Component],
    twins: Iterable[str] = (),
    with_topic: bool = False,
) -> Component:
    """Return the table in a box that scrolls. `hrefs` and `incidents` are by `topic queue`; `twins` are ClientIds."""
    known = set(twins)
    head = [html.Th("Queue", scope="col", className="corner"), html.Th("Verdict", scope="col", className="said")]
    head += [_client_head(client, client.client_id in known) for client in matrix.clients]
    if matrix.rest:
        head.append(html.Th("Other clients", scope="col"))
    if incidents:
        head.append(html.Th("Incident", scope="col"))
    lines = [_line(id_, line, matrix, now_ms, hrefs, incidents, with_topic) for line in matrix.lines]
    return html.Div(
        html.Table(
            [html.Caption(caption, className="unseen"), html.Thead(html.Tr(head)), html.Tbody(lines)],
            id=id_,
            className="matrix",
        ),
        className="scroll matrix-box",
        tabIndex=0,
        role="region",
        **aria(label=caption),
    )


def legend(lines: Sequence[Line]) -> Component:
    """Return the meanings of the signs and words in these lines."""
    cells = {cell for line in lines for cell in line.cells.values()}
    signs: list[Component] = []
    for cell in Cell:
        if cell in cells:
            signs += [html.Dt(cell.sign, className=f"sign {_look(cell)}"), html.Dd(cell.words)]
    words: list[Component] = []
    for verdict in worst_first({line.queue.verdict for line in lines}):
        if verdict in VERDICTS:
            words += [html.Dt(verdict), html.Dd(VERDICTS[verdict].meaning)]
    for reason in sorted({line.queue.reason for line in lines if line.queue.reason}):
        words += [html.Dt(reason), html.Dd(VERDICT_REASONS.get(reason, "unknown to this release"))]
    if any(line.queue.verdict in WRONG for line in lines):
        words += [html.Dt("certain since"), html.Dd(CERTAIN_SINCE)]
    return html.Div(
        [
            html.Dl(signs, className="legend", **aria(label="Signs")),
            html.Dl(words, className="legend", **aria(label="Verdicts")),
        ],
        className="legends",
    )


def _client_head(client: Client, is_twin: bool) -> html.Th:
    lines: list[el.Child] = [break_client_id(client.client_id)]
    if client.place:
        lines.append(html.Span(f"at {client.place}", className="place"))
    if is_twin:
        lines.append(el.mark("‖", "TWIN", "twin"))
    if not client.is_member:
        lines.append(html.Span("not a member", className="place"))
    return html.Th(lines, scope="col", className="client", title=", ".join((client.key, *client.addrs)))


def _line(
    id_: str,
    line: Line,
    matrix: Matrix,
    now_ms: int,
    hrefs: Mapping[str, str],
    incidents: Mapping[str, Component],
    with_topic: bool,
) -> html.Tr:
    queue = line.queue
    key = f"{queue.topic} {queue.name}"
    named: list[el.Child] = [html.A(queue.name, href=hrefs[key])]
    if with_topic:
        named.insert(0, html.Span(queue.topic, className="topic"))
    cells: list[Component] = [
        html.Th(named, scope="row"),
        html.Td(
            [
                verdict_mark(queue.verdict),
                f" {verdict_since_words(queue.verdict)} ",
                el.moment(queue.since_ms, now_ms),
                *_why(queue),
            ],
            className="said",
        ),
    ]
    for client in matrix.clients:
        cell = line.cells.get(client.key)
        cells.append(_cell(cell, client) if cell else html.Td(className="cell"))
    if matrix.rest:
        rest = [f"{name} {line.cells[name].sign}" for name in matrix.rest if name in line.cells]
        cells.append(html.Td(", ".join(rest), className="rest"))
    if incidents:
        cells.append(html.Td(incidents.get(key)))
    return html.Tr(cells, id=f"{id_}-{key}".replace(" ", "-"), className=f"row-{queue.verdict.lower()}")


def _why(queue: Queue) -> list[el.Child]:
    if queue.reason is None:
        return []
    return [" ", html.Span(f"({queue.reason})", title=VERDICT_REASONS.get(queue.reason, ""))]


def _cell(cell: Cell, client: Client) -> html.Td:
    words = f"{client.key}: {cell.words}"
    return html.Td(cell.sign, className=f"cell {_look(cell)}", title=words, **aria(label=words))


def _look(cell: Cell) -> str:
    return f"cell-{cell.name.lower().replace('_', '-')}"
