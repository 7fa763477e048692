// The section "normalizer" of tokenizer.json.
#include "text/charsmap.h"
#include "text/hf/base64.h"
#include "text/hf/parts.h"
#include "text/unicode_form.h"

namespace quire {

namespace {

constexpr std::string_view kWhere = "normalizer";

Result<std::unique_ptr<Normalizer>> read_bert(const Json& part) {
  BertRules rules;
  QR_TRY(rules.clean_text, bool_field(part, kWhere, "clean_text", true));
  QR_TRY(rules.handle_chinese_chars, bool_field(part, kWhere, "handle_chinese_chars", true));
  QR_TRY(rules.lowercase, bool_field(part, kWhere, "lowercase", true));
  QR_TRY(rules.strip_accents, bool_field(part, kWhere, "strip_accents", rules.lowercase));
  return make_bert(rules);
}

Result<std::unique_ptr<Normalizer>> read_precompiled(const Json& part) {
  QR_TRY(const std::string text, string_field(part, kWhere, "precompiled_charsmap", ""));
  QR_TRY(const std::string blob, decode_base64(text));
  QR_TRY(CharsMap map, CharsMap::parse(blob));
  return make_precompiled(std::move(map));
}

Result<std::unique_ptr<Normalizer>> read_replace(const Json& part) {
  QR_TRY(std::string content, string_field(part, kWhere, "content", ""));
  const Json* pattern = field(part, "pattern");
  const Json* literal = pattern == nullptr ? nullptr : field(*pattern, "String");
  const std::string* text = literal == nullptr ? nullptr : literal->as_string();
  if (text != nullptr && !text->empty()) return make_replace(*text, std::move(content));
  QR_TRY(auto matcher, pattern_field(part, kWhere));
  return make_regex_replace(std::move(matcher), std::move(content));
}

Result<std::unique_ptr<Normalizer>> read_one(const Json& part, const std::string& type) {
  if (type == "NFC") return make_unicode_form(UnicodeForm::nfc);
  if (type == "NFD") return make_unicode_form(UnicodeForm::nfd);
  if (type == "NFKC") return make_unicode_form(UnicodeForm::nfkc);
  if (type == "NFKD") return make_unicode_form(UnicodeForm::nfkd);
  if (type == "Lowercase") return make_lowercase();
  if (type == "StripAccents") return make_strip_accents();
  if (type == "Nmt") return make_nmt();
  if (type == "ByteLevel") return make_byte_characters();
  if (type == "BertNormalizer") return read_bert(part);
  if (type == "Precompiled") return read_precompiled(part);
  if (type == "Replace") return read_replace(part);
  if (type == "Prepend") {
    QR_TRY(std::string prefix, string_field(part, kWhere, "prepend", ""));
    return make_prepend(std::move(prefix));
  }
  if (type == "Strip") {
    QR_TRY(const bool left, bool_field(part, kWhere, "strip_left", true));
    QR_TRY(const bool right, bool_field(part, kWhere, "strip_right", true));
    return make_strip(left, right);
  }
  return fail(Code::unsupported, "tokenizer.json: normalizer \"" + type + "\" is not known");
}

}  // namespace

Result<HfNormalizer> read_normalizer(const Json* section) {
  HfNormalizer out;
  QR_TRY(const auto parts, flatten(section, kWhere, "normalizers"));
  for (const Json* part : parts) {
    QR_TRY(const std::string type, string_field(*part, kWhere, "type", ""));
    QR_TRY(auto step, read_one(*part, type));
    out.chain.push_back(std::move(step));
    out.to_byte_chars |= type == "ByteLevel";
  }
  return out;
}

}  // namespace quire
