"""Drives the server with the Python SDK: both eras, over its pipes and over HTTP.

The text of every answer must be the bytes that the command prints. Nothing may be warned about. Usage: drive.py PROGRAM FOLDER URL
"""

import asyncio
import json
import logging
import pathlib
import subprocess
import sys
import warnings

import jsonschema
from mcp import Client, StdioServerParameters

program, folder, url = sys.argv[1:4]
cases = json.loads((pathlib.Path(__file__).parent / "cases.json").read_text())
warnings_seen = []


class Keep(logging.Handler):
    def emit(self, record):
        warnings_seen.append(f"{record.name}: {record.getMessage()}")


def printed(arguments):
    ran = subprocess.run([program, *arguments], cwd=folder, capture_output=True, check=True)
    return ran.stdout.decode()


async def drive(server, mode, expected_version):
    async with Client(server, mode=mode) as client:
        assert client.protocol_version == expected_version, client.protocol_version
        assert client.server_info.name == "pannier"
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {case["tool"] for case in cases} <= set(tools), sorted(tools)
        for tool in tools.values():
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        for case in cases:
            tool = tools[case["tool"]]
            jsonschema.validate(case["arguments"], tool.input_schema)
            result = await client.call_tool(case["tool"], case["arguments"])
            assert not result.is_error, result
            assert result.content[0].text == printed(case["command"]), case
            assert result.structured_content is None, case
        wrong = await client.call_tool("search_docs", {"budget": 1})
        assert wrong.is_error and "code" in json.loads(wrong.content[0].text), wrong
        steps = []

        async def progress(done, total, message):
            steps.append(done)

        # A search that was answered before has no steps.
        question = {"query": f"deploy {expected_version}", "budget": 200}
        await client.call_tool("search_docs", question, progress_callback=progress)
        assert steps == sorted(set(steps)) and len(steps) >= 2, steps
        resources = (await client.list_resources()).resources
        assert len(resources) == 10, resources
        read = await client.read_resource(resources[0].uri)
        assert read.contents[0].text.startswith("# Deploy"), read
        assert len((await client.list_resource_templates()).resource_templates) == 2
        # Several at once on one connection.
        calls = [client.call_tool(case["tool"], case["arguments"]) for case in cases * 5]
        for case, result in zip(cases * 5, await asyncio.gather(*calls)):
            assert not result.is_error, (case, result)


async def main():
    arguments = ["mcp", "--cache", "handbook", "--docs", "examples/snippets", "--context", "examples/harbour"]
    stdio = StdioServerParameters(command=program, args=arguments, cwd=folder)
    for mode, version in [("auto", "2026-07-28"), ("legacy", "2025-11-25")]:
        await drive(stdio, mode, version)
        await drive(url, mode, version)
        print(f"Python SDK, {version}, stdio and HTTP: {len(cases)} tools' answers are the command's")


logging.getLogger().addHandler(Keep(level=logging.WARNING))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    asyncio.run(asyncio.wait_for(main(), 120))
warnings_seen += [str(warning.message) for warning in caught if "pannier" in str(warning.message)]
assert not warnings_seen, warnings_seen
