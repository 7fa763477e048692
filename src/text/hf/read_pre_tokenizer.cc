// The section "pre_tokenizer" of tokenizer.json.
#include "text/bert_pipeline.h"
#include "text/bert_sets.h"
#include "text/hf/parts.h"
#include "text/unicode.h"

namespace quire {

namespace {

constexpr std::string_view kWhere = "pre_tokenizer";

bool is_number(char32_t cp) { return (unicode_class(cp) & unicode_bits::kNumber) != 0; }
bool is_white_space(char32_t cp) { return is_space(cp); }

Result<SplitBehavior> behavior_field(const Json& part, std::string_view fallback) {
  QR_TRY(const std::string name, string_field(part, kWhere, "behavior", fallback));
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  return fail(Code::unsupported, "tokenizer.json: split behavior \"" + name + "\" is not known");
}

Result<std::unique_ptr<PreTokenStep>> read_split(const Json& part) {
  QR_TRY(auto matcher, pattern_field(part, kWhere));
  QR_TRY(const SplitBehavior behavior, behavior_field(part, "Removed"));
  QR_TRY(const bool invert, bool_field(part, kWhere, "invert", false));
  return make_split(std::move(matcher), behavior, invert);
}

Result<std::unique_ptr<PreTokenStep>> read_metaspace(const Json& part) {
  QR_TRY(std::string replacement, string_field(part, kWhere, "replacement", "\xE2\x96\x81"));
  QR_TRY(const bool split, bool_field(part, kWhere, "split", true));
  QR_TRY(const bool add_prefix, bool_field(part, kWhere, "add_prefix_space", true));  // the older spelling
  QR_TRY(const std::string scheme, string_field(part, kWhere, "prepend_scheme", add_prefix ? "always" : "never"));
  if (replacement.empty()) return bad_field(kWhere, "replacement", "a character");
  if (scheme == "always") return make_metaspace(std::move(replacement), PrependScheme::always, split);
  if (scheme == "first") return make_metaspace(std::move(replacement), PrependScheme::first, split);
  if (scheme == "never") return make_metaspace(std::move(replacement), PrependScheme::never, split);
  return bad_field(kWhere, "prepend_scheme", "always, first or never");
}

Result<std::unique_ptr<PreTokenStep>> read_digits(const Json& part) {
  QR_TRY(const bool individual, bool_field(part, kWhere, "individual_digits", false));
  return make_set_split(is_number, individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
}

Result<std::unique_ptr<PreTokenStep>> read_one(const Json& part, const std::string& type) {
  if (type == "Split") return read_split(part);
  if (type == "Metaspace") return read_metaspace(part);
  if (type == "Digits") return read_digits(part);
  if (type == "WhitespaceSplit") return make_set_split(is_white_space, SplitBehavior::removed);
  if (type == "Punctuation") {
    QR_TRY(const SplitBehavior behavior, behavior_field(part, "Isolated"));
    return make_set_split(is_bert_punctuation, behavior);
  }
  if (type == "Whitespace") {
    QR_TRY(auto words, make_matcher(R"(\w+|[^\w\s]+)", {}));
    return make_split(std::move(words), SplitBehavior::removed, true);
  }
  if (type == "CharDelimiterSplit") {
    QR_TRY(std::string delimiter, string_field(part, kWhere, "delimiter", ""));
    if (delimiter.empty()) return bad_field(kWhere, "delimiter", "a character");
    return make_split(make_literal_matcher(std::move(delimiter)), SplitBehavior::removed, false);
  }
  if (type == "FixedLength") {
    QR_TRY(const int64_t length, int_field(part, kWhere, "length", 5));
    if (length < 1) return bad_field(kWhere, "length", "at least 1");
    return make_fixed_length(static_cast<size_t>(length));
  }
  return fail(Code::unsupported, "tokenizer.json: pre_tokenizer \"" + type + "\" is not known");
}

Status read_byte_level(const Json& part, bool last, PreTokenizer& steps) {
  QR_TRY(const bool prefix, bool_field(part, kWhere, "add_prefix_space", true));
  QR_TRY(const bool use_regex, bool_field(part, kWhere, "use_regex", true));
  if (prefix) steps.push_back(make_add_prefix_space());
  if (use_regex) {
    QR_TRY(auto split, make_pattern_split(kGpt2Pattern));
    steps.push_back(std::move(split));
  }
  if (!last) steps.push_back(make_to_byte_chars());
  return {};
}

}  // namespace

Result<HfPreTokenizer> read_pre_tokenizer(const Json* section) {
  HfPreTokenizer out;
  QR_TRY(const auto parts, flatten(section, kWhere, "pretokenizers"));
  for (const Json* part : parts) {
    QR_TRY(const std::string type, string_field(*part, kWhere, "type", ""));
    if (type == "ByteLevel") {
      QR_TRY_VOID(read_byte_level(*part, part == parts.back(), out.steps));
      out.byte_level = true;
    } else if (type == "BertPreTokenizer") {
      add_bert_pre_tokenizer(out.steps);
    } else {
      QR_TRY(auto step, read_one(*part, type));
      out.steps.push_back(std::move(step));
    }
  }
  return out;
}

}  // namespace quire
