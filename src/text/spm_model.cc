// See spm_model.h. Field numbers are those of sentencepiece_model.proto. Unknown fields are skipped, lengths are
// checked against what is left of the enclosing message, and messages nest two deep by construction.
#include "text/spm_model.h"

#include <cstring>

#include "text/spm.h"

namespace quire {

namespace {

constexpr int kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;
constexpr int kUnigram = 1, kBpe = 2, kChar = 4;

class ProtoReader {
 public:
  explicit ProtoReader(std::string_view data) : data_(data) {}

  bool done() const { return at_ == data_.size(); }
  // Reads the next field; its value is then in `number` or `bytes`.
  Status next() {
    QR_TRY(const uint64_t key, varint());
    field = static_cast<uint32_t>(key >> 3);
    wire = static_cast<int>(key & 7);
    switch (wire) {
      case kVarint: {
        QR_TRY(number, varint());
        return {};
      }
      case kFixed64: return fixed(8);
      case kFixed32: return fixed(4);
      case kBytes: {
        QR_TRY(const uint64_t n, varint());
        if (n > data_.size() - at_) return corrupt("a length beyond the end");
        bytes = data_.substr(at_, n);
        at_ += n;
        return {};
      }
      default: return corrupt("an unknown wire type");
    }
  }
  float as_float() const {
    const auto bits = static_cast<uint32_t>(number);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  tl::unexpected<Error> corrupt(const std::string& what) const {
    return fail(Code::corrupt, "tokenizer.model: " + what + " in field " + std::to_string(field) + " at offset " +
                                   std::to_string(at_) + " of its message");
  }

  uint32_t field = 0;
  int wire = 0;
  uint64_t number = 0;
  std::string_view bytes;

 private:
  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == data_.size()) return corrupt("a truncated number");
      const auto byte = static_cast<uint8_t>(data_[at_++]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return corrupt("a number of more than 64 bits");
  }
  Status fixed(size_t n) {
    if (n > data_.size() - at_) return corrupt("a truncated number");
    number = 0;
    std::memcpy(&number, data_.data() + at_, n);
    at_ += n;
    return {};
  }

  std::string_view data_;
  size_t at_ = 0;
};

struct Model {
  TokenizerSpec spec;
  SpmStyle style{.own_normalizer = true};
  int type = kUnigram;
};

Token as_id(uint64_t number) { return static_cast<Token>(static_cast<int64_t>(number)); }

Status read_piece(std::string_view message, TokenizerSpec& spec) {
  ProtoReader in(message);
  std::string text;
  float score = 0;
  uint64_t type = 1;
  while (!in.done()) {
    QR_TRY_VOID(in.next());
    if (in.field == 1 && in.wire == kBytes) text.assign(in.bytes);
    if (in.field == 2 && in.wire == kFixed32) score = in.as_float();
    if (in.field == 3 && in.wire == kVarint) type = in.number;
  }
  if (type < 1 || type > 6) return in.corrupt("piece type " + std::to_string(type));
  spec.tokens.push_back(std::move(text));
  spec.scores.push_back(score);
  spec.types.push_back(static_cast<TokenType>(type));
  return {};
}

Status read_trainer(std::string_view message, Model& model) {
  ProtoReader in(message);
  while (!in.done()) {
    QR_TRY_VOID(in.next());
    switch (in.field) {
      case 3: model.type = static_cast<int>(in.number & 0xFF); break;
      case 24: model.style.prefix_is_suffix = in.number != 0; break;
      case 40: model.spec.unk = as_id(in.number); break;
      case 41: model.spec.bos = as_id(in.number); break;
      case 42: model.spec.eos = as_id(in.number); break;
      case 43: model.spec.pad = as_id(in.number); break;
      case 44: model.spec.unk_surface.assign(in.bytes); break;
      default: break;
    }
  }
  return {};
}

Status read_normalizer_spec(std::string_view message, Model& model) {
  ProtoReader in(message);
  while (!in.done()) {
    QR_TRY_VOID(in.next());
    switch (in.field) {
      case 2: model.spec.precompiled_charsmap.assign(in.bytes); break;
      case 3: model.spec.add_space_prefix = in.number != 0; break;
      case 4: model.spec.remove_extra_whitespaces = in.number != 0; break;
      case 5: model.style.escape_whitespaces = in.number != 0; break;
      default: break;
    }
  }
  return {};
}

Result<Model> read_model_proto(std::string_view file) {
  Model model;
  model.spec.remove_extra_whitespaces = true;  // the defaults of the .proto
  model.spec.unk = 0;
  model.spec.bos = 1;
  model.spec.eos = 2;
  ProtoReader in(file);
  while (!in.done()) {
    QR_TRY_VOID(in.next());
    if (in.wire != kBytes) continue;
    if (in.field == 1) QR_TRY_VOID(read_piece(in.bytes, model.spec));
    if (in.field == 2) QR_TRY_VOID(read_trainer(in.bytes, model));
    if (in.field == 3) QR_TRY_VOID(read_normalizer_spec(in.bytes, model));
  }
  return model;
}

// The trainer's ids are of its own vocabulary; models that were edited later keep them though the pieces moved.
void drop_wrong_id(const TokenizerSpec& spec, Token& id, TokenType type) {
  const bool right =
      id >= 0 && static_cast<size_t>(id) < spec.types.size() && spec.types[static_cast<size_t>(id)] == type;
  if (!right) id = -1;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_spm_model(std::string_view file, const SpmFrame& frame) {
  QR_TRY(Model model, read_model_proto(file));
  TokenizerSpec& spec = model.spec;
  drop_wrong_id(spec, spec.unk, TokenType::unknown);
  drop_wrong_id(spec, spec.bos, TokenType::control);
  drop_wrong_id(spec, spec.eos, TokenType::control);
  drop_wrong_id(spec, spec.pad, TokenType::control);
  // Language models of this form begin with BOS; encoders without one (T5) end with EOS.
  spec.add_bos = frame.add_bos < 0 ? spec.bos >= 0 : frame.add_bos == 1;
  spec.add_eos = frame.add_eos < 0 ? spec.bos < 0 : frame.add_eos == 1;
  spec.chat_template = frame.chat_template;
  spec.model = model.type == kUnigram ? "t5" : "llama";
  QR_TRY_VOID(check_spec(spec));
  switch (model.type) {
    case kUnigram: return make_spm_unigram(std::move(spec), model.style);
    case kBpe:
    case kChar: return make_spm_bpe(std::move(spec), model.style);
    default: return fail(Code::unsupported, "tokenizer.model: model type " + std::to_string(model.type));
  }
}

}  // namespace quire
