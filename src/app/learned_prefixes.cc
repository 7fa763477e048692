#include "app/learned_prefixes.h"

#include <algorithm>

namespace quire {
namespace {

struct Named {
  std::string name, folder;
};

Result<std::vector<Named>> split(const std::vector<std::string>& options) {
  std::vector<Named> out;
  for (const std::string& option : options) {
    const size_t at = option.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == option.size())
      return fail(Code::invalid, "--prefix must be NAME=DIR, got \"" + option + "\"");
    Named named{option.substr(0, at), option.substr(at + 1)};
    if (named.name.find(':') != std::string::npos)
      return fail(Code::invalid, "--prefix: a name has no ':', got \"" + named.name + "\"");
    if (std::ranges::find(out, named.name, &Named::name) != out.end())
      return fail(Code::invalid, "--prefix: \"" + named.name + "\" is given twice");
    out.push_back(std::move(named));
  }
  return out;
}

}  // namespace

void declare_prefix_option(CommandLine& line, std::vector<std::string>& options) {
  line.option("--prefix", options,
              "NAME=DIR: a learned prefix of PEFT's (prefix tuning, prompt tuning), which requests ask for as model "
              "base:NAME or in the field prefix; may be repeated");
}

Status check_prefixes(const std::vector<std::string>& options) {
  QR_TRY_VOID(split(options));
  return {};
}

Result<LearnedPrefixes> load_prefixes(const std::vector<std::string>& options, const Model& model) {
  QR_TRY(const std::vector<Named> all, split(options));
  LearnedPrefixes out;
  for (const Named& named : all) {
    QR_TRY(LearnedPrefix loaded, load_learned_prefix(named.folder, model.info()));
    const auto prefix = std::make_shared<const LearnedPrefix>(std::move(loaded));
    out.served.push_back({named.name, prefix->content, prefix->n_tokens});
    out.tokens.push_back({prefix->content, prefix->n_tokens, [prefix, &model](const Pass& pass, int begin) {
                            write_learned_prefix(*prefix, model, pass, begin);
                          }});
  }
  return out;
}

}  // namespace quire
