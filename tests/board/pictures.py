"""`python -m tests.board.pictures FOLDER`: every page over the modelled incidents, in light, dark and on a phone."""

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.board.conftest import CHROMIUM_ARGS, DESK, PHONE, Tab, chromium, serve
from tests.board.modelled import played, write_modelled

LOOKS = (("light", "light", DESK), ("dark", "dark", DESK), ("phone", "dark", PHONE))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.board.pictures", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(".bench/pictures"), help="default: %(default)s")
    parser.add_argument("--only", help="pages whose name holds this text")
    parser.add_argument("--language", default="en", help="language of the board; default: %(default)s")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="balancewatch-pictures-") as scratch, sync_playwright() as playwright:
        warehouse = Path(scratch) / "warehouse"
        write_modelled(warehouse, options.language)
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGS))
        with serve(warehouse, language=options.language) as url:
            for name, path in pages().items():
                for look, scheme, size in LOOKS:
                    if options.only and options.only not in name:
                        continue
                    context = browser.new_context(color_scheme=scheme, viewport=size, reduced_motion="reduce")  # type: ignore[arg-type]  # words and a dict of two ints are what it takes
                    page = Tab(context.new_page()).open(url.rstrip("/") + path)
                    picture = options.folder / f"{name}-{look}.png"
                    page.screenshot(path=picture, full_page=True)
                    print(picture)
                    context.close()
        browser.close()


def pages() -> dict[str, str]:
    """Name to path: each page once, where it has something to show."""
    cause = next(row["incident_id"] for row in played()["alerts"] if row["kind"] == "duplicate_client_id")
    group = "cluster=twins&group=order-service&topic=orders"
    return {
        "overview": "/",
        "alerts": "/alerts",
        "incident": f"/incident?id={cause}",
        "groups": "/groups",
        "group": f"/group?{group}",
        "history": f"/history?{group}&since=1h",
        "brokers": "/brokers?since=1h",
        "silences": "/silences",
        "deliveries": "/deliveries",
        "quality": "/quality?since=6h",
        "refused": "/incident",
    }


if __name__ == "__main__":
    main()
