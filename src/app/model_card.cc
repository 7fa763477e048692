#include "app/model_card.h"

#include <filesystem>

#include "app/model_store.h"
#include "io/describe.h"
#include "serve/ollama.h"

namespace quire {
namespace {

int64_t number(const Json* at) { return at != nullptr && at->as_int() != nullptr ? *at->as_int() : 0; }
std::string text(const Json* at) { return at != nullptr && at->as_string() != nullptr ? *at->as_string() : ""; }

// GGUF's name of it, and that of Hugging Face's folders.
int64_t context_length(const Json& about) {
  const Json* hyper = about.find("hyper");
  if (hyper == nullptr) return 0;
  const int64_t n = number(hyper->find("context_length"));
  return n > 0 ? n : number(hyper->find("max_position_embeddings"));
}

ModelCard card_of(const std::string& path, const Json& about) {
  ModelCard card;
  card.architecture = text(about.find("arch"));
  card.n_parameters = number(about.find("n_params"));
  card.file_bytes = number(about.find("file_bytes"));
  const Json* weights = about.find("weights");
  const Json* types = weights != nullptr ? weights->find("types") : nullptr;
  if (types != nullptr && types->as_array() != nullptr && !types->as_array()->empty())
    card.quantization = text(types->as_array()->front().find("type"));
  card.file = std::filesystem::path(path).filename();
  card.modified_s = modified_s(path);
  return card;
}

}  // namespace

ModelCard model_card(const std::string& path) {
  const Result<Json> about = describe_model(path);
  return about ? card_of(path, *about) : ModelCard{};
}

ModelCard model_card(const LoadedModel& loaded) {
  ModelCard card = model_card(loaded.path);
  card.n_embd = loaded.model->info().n_embd;
  card.digest = loaded.model->info().fingerprint;
  return card;
}

std::string shown_model(const std::string& path) {
  const Result<Json> about = describe_model(path);
  if (!about) return "";
  const auto tokenizer = load_tokenizer_of(path);
  const std::string chat = tokenizer ? (*tokenizer)->spec().chat_template : "";
  return ollama_show(card_of(path, *about), chat, context_length(*about), true);
}

}  // namespace quire
