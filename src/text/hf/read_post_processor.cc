// The section "post_processor" of tokenizer.json: only what it adds around a single text.
#include "text/hf/parts.h"

namespace quire {

namespace {

constexpr size_t kMaxFrame = 256;  // tokens that every text gets beside its own

Result<Token> id_of(const Json* value, std::string_view where) {
  if (value == nullptr || value->as_int() == nullptr || *value->as_int() < 0 || *value->as_int() > INT32_MAX) {
    return bad_field(where, "id", "a token id");
  }
  return static_cast<Token>(*value->as_int());
}

// ["[SEP]", 102]
Result<Token> pair_id(const Json& part, std::string_view key) {
  const Json* pair = field(part, key);
  const Json::Array* items = pair == nullptr ? nullptr : pair->as_array();
  if (items == nullptr || items->size() != 2) return bad_field("post_processor", key, "a token and its id");
  return id_of(&(*items)[1], "post_processor");
}

Status read_template(const Json& part, std::vector<Token>& prefix, std::vector<Token>& suffix) {
  const Json* single = field(part, "single");
  const Json* specials = field(part, "special_tokens");
  if (single == nullptr || single->as_array() == nullptr) return bad_field("post_processor", "single", "a list");
  bool before = true;
  for (const Json& item : *single->as_array()) {
    if (field(item, "Sequence") != nullptr) {
      before = false;
      continue;
    }
    const Json* token = field(item, "SpecialToken");
    const Json* name = token == nullptr ? nullptr : field(*token, "id");
    if (name == nullptr || name->as_string() == nullptr) return bad_field("post_processor", "single", "known items");
    const Json* entry = specials == nullptr ? nullptr : field(*specials, *name->as_string());
    const Json* ids = entry == nullptr ? nullptr : field(*entry, "ids");
    if (ids == nullptr || ids->as_array() == nullptr) return bad_field("post_processor", "special_tokens", "complete");
    for (const Json& id : *ids->as_array()) {
      QR_TRY(const Token value, id_of(&id, "post_processor.special_tokens"));
      (before ? prefix : suffix).push_back(value);
      if (prefix.size() + suffix.size() > kMaxFrame)
        return bad_field("post_processor", "single", "at most " + std::to_string(kMaxFrame) + " tokens");
    }
  }
  return {};
}

}  // namespace

Status read_post_processor(const Json* section, std::vector<Token>& prefix, std::vector<Token>& suffix) {
  QR_TRY(const auto parts, flatten(section, "post_processor", "processors"));
  for (const Json* part : parts) {
    QR_TRY(const std::string type, string_field(*part, "post_processor", "type", ""));
    if (type == "TemplateProcessing") {
      QR_TRY_VOID(read_template(*part, prefix, suffix));
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      QR_TRY(const Token cls, pair_id(*part, "cls"));
      QR_TRY(const Token sep, pair_id(*part, "sep"));
      prefix.push_back(cls);
      suffix.push_back(sep);
    } else if (type != "ByteLevel") {  // ByteLevel moves offsets only
      return fail(Code::unsupported, "tokenizer.json: post_processor \"" + type + "\" is not known");
    }
  }
  return {};
}

}  // namespace quire
