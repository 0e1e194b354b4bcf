// Chats that depend on a number alone: messages of three providers with tool calls, in many scripts and sizes.

const WORDS = (
  "the refund order takes five days customer shipping address changed please check status error failed test module function " +
  "返金 には 五日 かかります 订单 状态 배송 주문 заказ возврат τάξη استرداد ลูกค้า 👍 naïve Straße café 12345 3.14 foo_bar() {\"a\":1} \n\n --- don't WE'LL"
).split(" ");

/** A linear congruential generator. */
function generator(seed) {
  let state = BigInt(seed) * 7919n + 1n;
  return (below) => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
    return Number((state >> 33n) % BigInt(below));
  };
}

function openai(draw, text) {
  const messages = draw(2) ? [{ role: "system", content: text(30) }] : [];
  for (let turn = 0, turns = 1 + draw(12); turn < turns; turn++) {
    messages.push({ role: "user", content: draw(5) ? text(60) : [{ type: "text", text: text(40) }] });
    if (draw(2)) {
      const id = `call_${turn}`;
      messages.push({
        role: "assistant",
        content: draw(2) ? null : text(10),
        tool_calls: [{ id, type: "function", function: { name: "lookup", arguments: JSON.stringify({ query: text(4) }) } }],
      });
      messages.push({ role: "tool", tool_call_id: id, content: text(draw(4) ? 80 : 600) });
    }
    if (draw(6)) messages.push({ role: "assistant", content: text(80) });
  }
  return draw(2) ? messages : { model: ["gpt-5", "gpt-4", "gpt-4o-mini", "unknown"][draw(4)], messages, temperature: 0.25 };
}

function anthropic(draw, text) {
  const messages = [];
  for (let turn = 0, turns = 1 + draw(10); turn < turns; turn++) {
    messages.push({ role: "user", content: text(60) });
    if (draw(2)) {
      const id = `toolu_${turn}`;
      messages.push({ role: "assistant", content: [{ type: "text", text: text(9) }, { type: "tool_use", id, name: "lookup", input: { q: text(3) } }] });
      messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: id, content: text(draw(3) ? 60 : 500) }] });
    }
    messages.push({ role: "assistant", content: [{ type: "text", text: text(50) }] });
  }
  messages.push({ role: "user", content: text(20) });
  return { model: "claude-sonnet-4-5", max_tokens: 64, system: text(20), messages };
}

function gemini(draw, text) {
  const contents = [];
  for (let turn = 0, turns = 1 + draw(8); turn < turns; turn++) {
    contents.push({ role: "user", parts: [{ text: text(50) }] }, { role: "model", parts: [{ text: text(50) }] });
  }
  contents.push({ role: "user", parts: [{ text: text(9) }] });
  return { contents };
}

/** Returns chats as JSON texts, each with the options of a request. */
export function chats(count) {
  return Array.from({ length: count }, (_, seed) => {
    const draw = generator(seed);
    const text = (most) => Array.from({ length: 1 + draw(most) }, () => WORDS[draw(WORDS.length)]).join(" ");
    const chat = JSON.stringify([openai, anthropic, gemini, openai][draw(4)](draw, text), null, draw(2) ? 0 : 2);
    const options = { budget: 100 + draw(2_500) };
    if (draw(2)) options.once = true;
    if (!draw(3)) options.tokenizer = ["gpt-5", "cl100k", "script", "o200k x 1.2"][draw(4)];
    if (!draw(4)) options.query = text(5);
    if (!draw(5)) options.reserve = draw(90);
    return { chat, options };
  });
}
