"""The endpoints that stages bring."""

from __future__ import annotations

from flask import Response

from ..chat import parse_object
from ..contract import as_refusal
from ..errors import RequestError
from ..gateway import Gateway
from ..payload import read_body
from ..pipeline import Endpoint
from ..reply import json_reply
from .admission import admit
from .route import Route, View

__all__ = ["routes"]


def routes(gateway: Gateway) -> list[Route]:
    """Give the routes of the stages' endpoints."""
    return [
        Route(endpoint.method, endpoint.path, _view(gateway, endpoint, stage.name))
        for stage in gateway.pipeline.stages
        for endpoint in stage.endpoints()
    ]


def _view(gateway: Gateway, endpoint: Endpoint, name: str) -> View:
    def view() -> Response:
        admit(gateway)
        body = {} if endpoint.method == "GET" else parse_object(read_body(gateway))
        try:
            given = endpoint.handler(body)
        except RequestError as error:
            raise as_refusal(error, name) from error
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:  # a stage that exits does not end the worker
            raise RuntimeError("an endpoint of a stage exits") from error
        return json_reply(given)

    return view
