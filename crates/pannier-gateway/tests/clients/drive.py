"""Calls a provider with the SDKs of OpenAI and Anthropic, and prints what they return as JSON.

usage: drive.py BASE_URL
"""

import json
import sys

import anthropic
import openai

# A red dot of one pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8Dwn4GBgQEABQYCAbZ9bJkAAAAASUVORK5CYII="
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LONG = " ".join(f"word{number}" for number in range(4_000))


def main():
    base = sys.argv[1]
    results = []
    chat = openai.OpenAI(base_url=f"{base}/v1", api_key="key-openai", max_retries=0)
    tools = [{"type": "function", "function": {"name": "weather", "parameters": TOOL}}]
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    for content in ("Hello, Grüße \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
                    [{"type": "text", "text": "What is this?"}, image]):
        messages = [{"role": "user", "content": content}]
        answer = chat.chat.completions.create(model="gpt-5", messages=messages, tools=tools)
        results.append(answer.choices[0].message.content)
        stream = chat.chat.completions.create(model="gpt-5", messages=messages, tools=tools, stream=True)
        results.append([chunk.choices[0].delta.content for chunk in stream])
    tools = [{"type": "function", "name": "weather", "parameters": TOOL, "strict": False}]
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "low"}
    message = {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, image]}
    for text in ("Hello", [message]):
        results.append(chat.responses.create(model="gpt-5", input=text, tools=tools).output_text)
        stream = chat.responses.create(model="gpt-5", input=text, tools=tools, stream=True)
        results.append([(event.type, getattr(event, "delta", None)) for event in stream])
    # Histories that must be cut.
    history, items = [{"role": "user", "content": "Fix it."}], [{"role": "user", "content": "Fix it."}]
    for number in range(6):
        arguments, output = '{"city": "Oslo"}', f"{number} {LONG}"
        call = {"id": f"c{number}", "type": "function", "function": {"name": "weather", "arguments": arguments}}
        history += [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": f"c{number}", "content": output}]
        items += [{"type": "function_call", "call_id": f"c{number}", "name": "weather", "arguments": arguments},
                  {"type": "function_call_output", "call_id": f"c{number}", "output": output}]
    answer = chat.chat.completions.create(model="gpt-5", messages=history)
    results.append(answer.choices[0].message.content)
    results.append(chat.responses.create(model="gpt-5", input=items, tools=tools).output_text)

    claude = anthropic.Anthropic(base_url=base, api_key="key-anthropic", max_retries=0)
    tools = [{"name": "weather", "description": "The weather", "input_schema": TOOL}]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    for content in ("Hello", [{"type": "text", "text": "What is this?"}, image]):
        messages = [{"role": "user", "content": content}]
        options = {"model": "claude-x", "max_tokens": 50, "messages": messages, "tools": tools}
        results.append(claude.messages.create(**options).content[0].text)
        with claude.messages.stream(**options) as stream:
            results.append(list(stream.text_stream))
    results.append(claude.messages.count_tokens(model="claude-x", messages=messages).input_tokens)
    # A history that must be cut.
    history = [{"role": "user", "content": "Fix it."}]
    for number in range(6):
        call = {"type": "tool_use", "id": f"c{number}", "name": "weather", "input": {"city": "Oslo"}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"{number} {LONG}"}
        history += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    raw = claude.messages.with_raw_response.create(model="claude-x", max_tokens=50, messages=history, tools=tools)
    results.append(raw.parse().content[0].text)
    try:
        claude.messages.create(model="fail", max_tokens=5, messages=messages)
    except anthropic.RateLimitError as error:
        results.append([error.status_code, error.body, error.response.headers["retry-after"]])
    print(json.dumps(results))


main()
