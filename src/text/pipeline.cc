// See pipeline.h.
#include "text/pipeline.h"

#include <algorithm>

#include "base/check.h"
#include "text/bert_pipeline.h"
#include "text/byte_chars.h"
#include "text/detok.h"

namespace quire {

Pipeline::Pipeline(TokenizerSpec spec, PipelineSpec parts) : Tokenizer(std::move(spec)), parts_(std::move(parts)) {}

Status Pipeline::encode(std::string_view text, EncodeOptions options, std::vector<Token>& out) const {
  TextBudget budget(text.size());
  if (options.add_special) out.insert(out.end(), parts_.prefix.begin(), parts_.prefix.end());
  // Positions are lost where a normaliser runs, so a stretch that holds any of the user's text has no control tokens
  // made of normalised text at all.
  const auto trusted = [&](std::string_view fragment) {
    const auto begin = static_cast<size_t>(fragment.data() - text.data());
    const auto plain = std::partition_point(options.plain.begin(), options.plain.end(),
                                            [begin](const ByteRange& r) { return r.end <= begin; });
    return options.parse_special && (plain == options.plain.end() || plain->begin >= begin + fragment.size());
  };
  std::vector<Fragment> fragments;
  if (parts_.added.empty()) {
    fragments.push_back({text, -1});
  } else {
    parts_.added.split(text, options.parse_special, fragments, options.plain);
  }
  for (const Fragment& f : fragments) {
    if (f.id >= 0) {
      out.push_back(f.id);
    } else if (!encode_fragment({f.text, f.text.data() == text.data(), budget}, trusted(f.text), out)) {
      return budget.exceeded();
    }
  }
  if (options.add_special) out.insert(out.end(), parts_.suffix.begin(), parts_.suffix.end());
  return {};
}

bool Pipeline::encode_fragment(const Stretch& raw, bool parse_special, std::vector<Token>& out) const {
  std::string scratch;
  const auto normal = normalize(parts_.normalizers, raw.text, raw.budget, scratch);
  if (!normal) return false;
  if (parts_.added_normalized.empty()) return encode_normal({*normal, raw.at_start, raw.budget}, out);
  std::vector<Fragment> fragments;
  parts_.added_normalized.split(*normal, parse_special, fragments);
  for (const Fragment& f : fragments) {
    if (f.id >= 0) {
      out.push_back(f.id);
    } else if (!encode_normal({f.text, raw.at_start && f.text.data() == normal->data(), raw.budget}, out)) {
      return false;
    }
  }
  return true;
}

bool Pipeline::encode_normal(const Stretch& normal, std::vector<Token>& out) const {
  if (normal.text.empty()) return true;
  if (parts_.pre_tokenizer.empty() && !parts_.normalized_to_byte_chars) {
    parts_.model->encode(normal.text, out);
    return true;
  }
  PreTokens pieces;
  pieces.text = normal.text;
  pieces.ranges.push_back({0, normal.text.size()});
  pieces.at_start = normal.at_start;
  pieces.in_byte_chars = parts_.normalized_to_byte_chars;
  pieces.budget = &normal.budget;
  for (const auto& step : parts_.pre_tokenizer) {
    step->apply(pieces);
    if (pieces.too_large) return false;
  }
  for (size_t i = 0; i < pieces.ranges.size(); ++i) {
    // A later step may have put in characters that stand for no byte: such a piece stays as it is.
    const auto bytes = pieces.in_byte_chars ? chars_to_bytes(pieces[i]) : std::nullopt;
    parts_.model->encode(bytes ? *bytes : pieces[i], out);
  }
  return true;
}

void Pipeline::append_bytes(Token id, bool special, std::string& out) const {
  QR_DCHECK(id >= 0);
  const auto i = static_cast<size_t>(id);
  if (i >= parts_.token_bytes.size()) return;
  if (special || !parts_.hidden[i]) out += parts_.token_bytes[i];
}

std::string Pipeline::decode(std::span<const Token> ids, bool special) const {
  std::string text;
  Detok detok(*this, special, true);
  for (const Token id : ids) detok.push(id, text);
  detok.flush(text);
  return parts_.clean_up_spaces ? clean_up_spaces(std::move(text)) : text;
}

}  // namespace quire
