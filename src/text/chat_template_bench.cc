// Chat templates: parse once, render per request. The figure to keep is microseconds per rendering.
#include <benchmark/benchmark.h>

#include "text/chat_template.h"

namespace quire {
namespace {

constexpr std::string_view kChatml =
    "{%- if tools %}\n    {{- '<|im_start|>system\\n' }}\n    {%- if messages[0].role == 'system' %}\n"
    "        {{- messages[0].content + '\\n\\n' }}\n    {%- endif %}\n    {{- \"# Tools\\n\\n<tools>\" }}\n"
    "    {%- for tool in tools %}\n        {{- \"\\n\" }}\n        {{- tool | tojson }}\n    {%- endfor %}\n"
    "    {{- \"\\n</tools><|im_end|>\\n\" }}\n{%- endif %}\n{%- for message in messages %}\n"
    "    {%- if message.role == 'assistant' and '</think>' in message.content %}\n"
    "        {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}\n    {%- else %}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n    {%- endif %}\n"
    "{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n";

TemplateInput conversation(int64_t n_messages, bool tools) {
  Json::Array messages;
  for (int64_t i = 0; i < n_messages; ++i) {
    Json m;
    m.set("role", i % 2 == 0 ? "user" : "assistant");
    m.set("content", "A message of about sixty bytes, as people write them, number " + std::to_string(i));
    messages.push_back(std::move(m));
  }
  TemplateInput input;
  input.messages = std::move(messages);
  input.add_generation_prompt = true;
  if (tools) {
    input.tools =
        *Json::parse(R"([{"type":"function","function":{"name":"get_weather","description":"Weather of a city",
        "parameters":{"type":"object","properties":{"city":{"type":"string"},"unit":{"enum":["c","f"]}}}}}])");
  }
  return input;
}

void parse(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(ChatTemplate::parse(kChatml));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kChatml.size()));
}
BENCHMARK(parse);

void render(benchmark::State& state) {
  const auto parsed = ChatTemplate::parse(kChatml);
  const TemplateInput input = conversation(state.range(0), state.range(1) != 0);
  int64_t bytes = 0;
  for (auto _ : state) bytes += static_cast<int64_t>(parsed->render_marked(input)->text.size());
  state.SetBytesProcessed(bytes);
}
BENCHMARK(render)
    ->ArgNames({"messages", "tools"})
    ->Args({1, 0})
    ->Args({1, 1})
    ->Args({10, 1})
    ->Args({100, 0})
    ->Args({10000, 0});

}  // namespace
}  // namespace quire
