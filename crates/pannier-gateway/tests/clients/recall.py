"""Recalls blocks that the gateway cut, with the SDK of the Model Context Protocol, and prints the results as JSON.

usage: recall.py BASE_URL KEY ID ...
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main():
    base, key, *ids = sys.argv[1:]
    results = []
    for mode in ("auto", "legacy"):
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60)
        async with http, Client(streamable_http_client(f"{base}/mcp", http_client=http), mode=mode) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            calls = [await client.call_tool("recall", {"id": name}) for name in ids]
            results.append({"tools": tools, "texts": [None if call.is_error else call.content[0].text for call in calls]})
    print(json.dumps(results))


asyncio.run(asyncio.wait_for(main(), 120))
