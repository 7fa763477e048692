// Template parse and render: the input is a template, optionally followed by a NUL and a JSON object of variables.
// Whatever it is, parsing and rendering end within their limits, errors say where, and user ranges lie in the text.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/chat_template.h"

namespace quire {
namespace {

constexpr std::string_view kRequest =
    R"({"messages":[{"role":"user","content":"a é <|x|>"},{"role":"assistant","content":null,"tool_calls":[{"id":"1",)"
    R"("function":{"name":"f","arguments":{"k":[1,2.5,true]}}}]}],"tools":[{"name":"f"}],"x":{"y":["z"]}})";

void fuzz_one(std::string_view data) {
  const size_t end = std::min(data.find('\0'), data.size());
  TemplateLimits limits;
  limits.fuel = 20000;
  limits.output_bytes = 1 << 16;
  limits.memory_bytes = 4 << 20;
  const auto parsed = ChatTemplate::parse(data.substr(0, end), limits);
  if (!parsed) {
    QR_CHECK(parsed.error().message.starts_with("chat template"), parsed.error().message);
    return;
  }
  auto variables = Json::parse(data.substr(std::min(end + 1, data.size())));
  if (!variables || !variables->as_object()) variables = Json::parse(kRequest);
  TemplateInput input;
  input.now = "2026-01-31T12:00:00";
  for (const Json::Member& m : *variables->as_object()) {
    if (m.first == "messages") {
      input.messages = m.second;
    } else if (m.first == "tools") {
      input.tools = m.second;
    } else {
      input.extra.set(m.first, m.second);
    }
  }
  const auto rendered = parsed->render_marked(input);
  if (!rendered) return;
  QR_CHECK(rendered->text.size() <= limits.output_bytes);
  size_t at = 0;
  for (const ByteRange& r : rendered->user_ranges) {
    QR_CHECK(r.begin >= at && r.begin < r.end && r.end <= rendered->text.size());
    at = r.end;
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::fuzz_one({reinterpret_cast<const char*>(data), size});
  return 0;
}
