#include "serve/document_edges.h"

#include <algorithm>
#include <utility>

#include "text/parse/tag_formats.h"
#include "text/regex/parse.h"

namespace quire {
namespace {

using Notation = GrammarSource::Notation;

struct Edges {
  std::vector<std::string_view> begin, end;
};

Edges edges_of(ReasoningForm::Kind reasoning, const CallForm* calls) {
  const ReasoningMarks thoughts = reasoning_marks(reasoning), response = response_marks(reasoning);
  Edges out{{thoughts.open, thoughts.close, response.open, response.close, turn_end(reasoning)}, {}};
  if (!response.open.empty()) out.end = {response.close, turn_end(reasoning)};
  if (calls != nullptr && !calls->channels && calls->said.empty()) {
    out.begin.push_back(calls->trigger);
    out.begin.push_back(calls->short_lead);
  }
  std::erase(out.begin, "");
  std::erase(out.end, "");
  return out;
}

// White space before the first mark counts for none of it.
std::string_view begun(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

std::string one_of_patterns(const std::vector<std::string_view>& marks) {
  std::string out;
  for (const std::string_view mark : marks) out += (out.empty() ? "" : "|") + formats::quoted_pattern(mark);
  return "(?:" + out + ")";
}

// One that cannot be read is left for its compiler to refuse.
void hold_regex(const Edges& edges, WantedGrammar& wanted) {
  RegexDialect dialect;
  dialect.ecma = true;
  if (!parse_regex(wanted.source.text, dialect)) return;
  WantedGrammar::Part own{wanted.source, wanted.field};
  std::string text;
  if (!edges.begin.empty()) text += "(?![ \\t\\r\\n]*" + one_of_patterns(edges.begin) + ")";
  if (!edges.end.empty()) text += "(?![\\s\\S]*" + one_of_patterns(edges.end) + "$)";
  wanted.source.text = text + "(?:" + wanted.source.text + ")";
  wanted.parts.push_back(std::move(own));
}

ApiResult<void> check_choice(const Edges& edges, const WantedGrammar& wanted) {
  const auto list = Json::parse(wanted.source.text);
  if (!list || list->as_array() == nullptr) return {};
  for (size_t i = 0; i < list->as_array()->size(); ++i) {
    const std::string* text = (*list->as_array())[i].as_string();
    if (text == nullptr) continue;
    const auto refused = [&](std::string_view verb, std::string_view mark) {
      return refuse(bad_field(at_index(wanted.field, static_cast<int64_t>(i)),
                              std::string(verb) + " with '" + std::string(mark) +
                                  "', which this model writes around its thoughts, answers or calls"));
    };
    for (const std::string_view mark : edges.begin)
      if (begun(*text).starts_with(mark)) return refused("begins", mark);
    for (const std::string_view mark : edges.end)
      if (text->ends_with(mark)) return refused("ends", mark);
  }
  return {};
}

}  // namespace

ApiResult<void> keep_from_marks(ReasoningForm::Kind reasoning, const CallForm* calls, WantedGrammar& wanted) {
  const Edges edges = edges_of(reasoning, calls);
  if (edges.begin.empty()) return {};
  if (wanted.source.notation == Notation::regex) hold_regex(edges, wanted);
  if (wanted.source.notation == Notation::choice) return check_choice(edges, wanted);
  return {};
}

}  // namespace quire
