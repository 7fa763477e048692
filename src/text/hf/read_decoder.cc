// The section "decoder" of tokenizer.json, worked out for each token once: every step of a decoder looks at one token
// at a time, but for the space that some of them drop at the very start.
#include "text/bert_pipeline.h"
#include "text/byte_chars.h"
#include "text/hf/parts.h"
#include "text/normalizer.h"
#include "text/spm_pieces.h"

namespace quire {

namespace {

constexpr std::string_view kWhere = "decoder";
constexpr size_t kMaxShownBytes = 16'384;     // of one token's text
constexpr size_t kMaxShownInAll = 256 << 20;  // of a vocabulary's

// One step on the text of one token.
class TokenStep {
 public:
  virtual ~TokenStep() = default;
  // What is longer than kMaxShownBytes may have any text.
  virtual std::string apply(std::string text, bool in_model) const = 0;
};

class ReplaceStep final : public TokenStep {
 public:
  explicit ReplaceStep(std::unique_ptr<Normalizer> rule) : rule_(std::move(rule)) {}
  std::string apply(std::string text, bool) const override {
    std::string out;
    if (!rule_->apply(text, kMaxShownBytes, out))
      out.assign(kMaxShownBytes + 1, ' ');  // too long: read_decoder refuses it
    return out;
  }

 private:
  std::unique_ptr<Normalizer> rule_;
};

class ByteLevelStep final : public TokenStep {
  std::string apply(std::string text, bool in_model) const override {
    if (!in_model) return text;  // added tokens are written as they are
    const auto bytes = chars_to_bytes(text);
    return bytes ? *bytes : text;
  }
};

class ByteFallbackStep final : public TokenStep {
  std::string apply(std::string text, bool) const override {
    const int byte = byte_of_piece(text);
    return byte < 0 ? text : std::string(1, static_cast<char>(byte));
  }
};

// "##x" continues, anything else begins with a space; the clean-up takes spaces before punctuation away.
class WordPieceStep final : public TokenStep {
 public:
  WordPieceStep(std::string prefix, bool clean_up) : prefix_(std::move(prefix)), clean_up_(clean_up) {}
  std::string apply(std::string text, bool) const override {
    if (!prefix_.empty() && text.starts_with(prefix_)) {
      text.erase(0, prefix_.size());
    } else {
      text.insert(text.begin(), ' ');
    }
    return clean_up_ ? clean_up_spaces(std::move(text)) : text;
  }

 private:
  std::string prefix_;
  bool clean_up_;
};

struct Decoder {
  std::vector<std::unique_ptr<TokenStep>> steps;
  bool strips = false, clean_up = false;
};

Status add_replace(Decoder& out, std::string from, std::string to) {
  if (from.empty()) return bad_field(kWhere, "replacement", "a character");
  out.steps.push_back(std::make_unique<ReplaceStep>(make_replace(std::move(from), std::move(to))));
  return {};
}

Status add_metaspace(const Json& part, Decoder& out) {
  QR_TRY(const std::string replacement, string_field(part, kWhere, "replacement", kSpaceSymbol));
  QR_TRY(const bool add_prefix, bool_field(part, kWhere, "add_prefix_space", true));
  QR_TRY(const std::string scheme, string_field(part, kWhere, "prepend_scheme", add_prefix ? "always" : "never"));
  out.strips = scheme != "never";
  return add_replace(out, replacement, " ");
}

Status add_part(const Json& part, Decoder& out) {
  QR_TRY(const std::string type, string_field(part, kWhere, "type", ""));
  if (type == "ByteLevel") {
    out.steps.push_back(std::make_unique<ByteLevelStep>());
  } else if (type == "ByteFallback") {
    out.steps.push_back(std::make_unique<ByteFallbackStep>());
  } else if (type == "Metaspace") {
    return add_metaspace(part, out);
  } else if (type == "Replace") {
    QR_TRY(auto matcher, pattern_field(part, kWhere));
    QR_TRY(std::string content, string_field(part, kWhere, "content", ""));
    out.steps.push_back(std::make_unique<ReplaceStep>(make_regex_replace(std::move(matcher), std::move(content))));
  } else if (type == "WordPiece") {
    QR_TRY(std::string prefix, string_field(part, kWhere, "prefix", "##"));
    QR_TRY(const bool clean_up, bool_field(part, kWhere, "cleanup", true));
    out.steps.push_back(std::make_unique<WordPieceStep>(std::move(prefix), clean_up));
    out.strips = true;
    out.clean_up = clean_up;
  } else if (type == "BPEDecoder") {
    QR_TRY(std::string suffix, string_field(part, kWhere, "suffix", "</w>"));
    return add_replace(out, std::move(suffix), " ");
  } else if (type == "Strip") {
    QR_TRY(const std::string content, string_field(part, kWhere, "content", " "));
    QR_TRY(const int64_t start, int_field(part, kWhere, "start", 0));
    out.strips |= content == " " && start > 0;
  } else if (type != "Fuse") {
    return fail(Code::unsupported, "tokenizer.json: decoder \"" + type + "\" is not known");
  }
  return {};
}

}  // namespace

Status read_decoder(const Json* section, const HfVocab& vocab, PipelineSpec& parts) {
  Decoder decoder;
  QR_TRY(const auto list, flatten(section, kWhere, "decoders"));
  for (const Json* part : list) QR_TRY_VOID(add_part(*part, decoder));
  if (list.empty()) {  // without a decoder the reference puts a space between tokens
    decoder.steps.push_back(std::make_unique<WordPieceStep>("", false));
    decoder.strips = true;
  }
  size_t n_bytes = 0;
  for (size_t id = 0; id < vocab.texts.size(); ++id) {
    std::string text = vocab.shown[id].empty() ? vocab.texts[id] : vocab.shown[id];
    if (!text.empty()) {
      for (const auto& step : decoder.steps) {
        text = step->apply(std::move(text), vocab.in_model[id]);
        if (text.size() > kMaxShownBytes) break;
      }
    }
    n_bytes += text.size();
    if (text.size() > kMaxShownBytes || n_bytes > kMaxShownInAll) {
      return fail(Code::corrupt, "tokenizer.json: decoder makes the text of token " + std::to_string(id) +
                                     " longer than " + std::to_string(kMaxShownBytes) +
                                     " bytes, or all together than " + std::to_string(kMaxShownInAll));
    }
    parts.token_bytes.push_back(std::move(text));
    parts.hidden.push_back(vocab.special[id]);
  }
  parts.strips_leading_space = decoder.strips;
  parts.clean_up_spaces = decoder.clean_up;
  return {};
}

}  // namespace quire
