// Chat templates: messages to the text that a model was trained on. The language is the Jinja that real templates use,
// with the semantics of the reference (Jinja 3.1 as transformers sets it up); the interpreter behind it is text/jinja.
// Every value is plain data of the rendering, so a template can reach nothing else. A ChatTemplate is immutable: parsed
// once, rendered by any thread. The rendering says which of its bytes came from the user, so that special-token text
// inside a message can be told from the template's own.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/byte_range.h"
#include "text/jinja/limits.h"

namespace quire {

namespace jinja {
struct Program;
}

// How a template sees the arguments of calls, which messages hold as JSON text: as that text, or as the object that it
// is, which `tojson` writes as the text was.
enum class ArgumentsAs : uint8_t { text, object };

struct TemplateInput {
  Json messages = Json::Array{};
  Json tools;                                 // null: none
  ArgumentsAs arguments = ArgumentsAs::text;  // strings "arguments" of objects in `messages`
  bool add_generation_prompt = false;
  Json special_tokens = Json::Object{};  // "bos_token", "eos_token", …: trusted text, each a variable of that name
  std::string now;                       // "YYYY-MM-DDTHH:MM:SS" for strftime_now; empty: strftime_now fails
  bool shows_functions = false;          // a variable "functions", the tools as JSON text, where `extra` has none
  Json extra = Json::Object{};           // chat_template_kwargs: more variables; reserved names are refused
};

struct Rendered {
  std::string text;
  // Bytes that came from messages, tools or extra, in order, not touching one another. What is cut out of such a string
  // or derived from it counts too; the well-known roles do not, because templates build special tokens around them.
  std::vector<ByteRange> user_ranges;
};

class ChatTemplate {
 public:
  // Code::invalid for a syntax error or a source past the limits (with the line), Code::unsupported for tags of Jinja
  // that chat templates do not use (include, import, extends, block, recursive loops).
  static Result<ChatTemplate> parse(std::string_view source, const TemplateLimits& limits = {});

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Code::invalid for whatever the template refuses (raise_exception: its message is quoted), for type errors, for
  // reserved names in extra, and for passed limits. The message starts with "chat template, line N: ".
  Result<Rendered> render_marked(const TemplateInput& input) const;
  Result<std::string> render(const TemplateInput& input) const;

 private:
  ChatTemplate(std::unique_ptr<const jinja::Program> program, const TemplateLimits& limits);

  std::unique_ptr<const jinja::Program> program_;
  TemplateLimits limits_;
};

// Of TemplateInput::extra: Code::invalid, in the words of render_marked(), where it is no object or has a reserved
// name.
Status check_template_kwargs(const Json& extra);

// `unix_seconds` in the machine's time zone, as TemplateInput::now wants it.
std::string local_time_text(int64_t unix_seconds);

}  // namespace quire
