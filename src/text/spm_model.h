// SentencePiece's tokenizer.model: a protobuf message, read with a bounded reader of our own.
#pragma once
#include <memory>
#include <string_view>

#include "text/tokenizer.h"

namespace quire {

// What a folder's tokenizer_config.json may say about a model that does not say it itself; -1: not said.
struct SpmFrame {
  int add_bos = -1, add_eos = -1;
  std::string chat_template;
};

// Code::corrupt names the field and offset; Code::unsupported the word model.
Result<std::unique_ptr<Tokenizer>> make_spm_model(std::string_view file, const SpmFrame& frame);

}  // namespace quire
