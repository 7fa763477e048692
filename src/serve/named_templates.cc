#include "serve/named_templates.h"

#include "text/chat_template.h"

namespace quire {
namespace {

struct Named {
  std::string_view name, source;
};

// Widespread forms that models without a template of their own were trained with.
constexpr Named kNamed[] = {
    {"chatml",
     "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' "
     "}}"
     "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"llama3",
     "{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + "
     "message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"command-r",
     "{% for message in messages %}{{ '<|START_OF_TURN_TOKEN|><|' + ('CHATBOT' if message['role'] == 'assistant' else "
     "message['role'] | upper) + '_TOKEN|>' + message['content'] | trim + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"},
};

}  // namespace

Result<std::string> named_template(std::string_view text) {
  std::string known;
  for (const Named& one : kNamed) {
    if (one.name == text) return std::string(one.source);
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  if (text.find_first_of("{ \n") == std::string_view::npos)
    return fail(Code::invalid, "--chat-template is '" + std::string(text.substr(0, 64)) +
                                   "': it must be Jinja text, or one of " + known);
  return std::string(text);
}

Status check_chat_template(const std::string& source) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) return fail(Code::invalid, "--chat-template: " + parsed.error().message);
  return {};
}

}  // namespace quire
