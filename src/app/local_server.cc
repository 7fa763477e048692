#include "app/local_server.h"

#include <random>

#include "app/engine_names.h"
#include "app/model_card.h"

namespace quire {
namespace {

std::string random_key() {
  std::random_device source;
  std::string out;
  for (int i = 0; i < 4; ++i) out += std::to_string(source());
  return out;
}

}  // namespace

Result<std::unique_ptr<LocalServer>> LocalServer::start(ModelOptions model,
                                                        EngineOptions engine,
                                                        const std::vector<std::string>& adapters) {
  std::unique_ptr<LocalServer> out(new LocalServer);
  QR_TRY_VOID(load_options(model, nullptr));
  ServeOptions serve;
  QR_TRY(ModelFile file, fit_memory(model, engine, {}, adapter_bytes_of(adapters, serve.limits)));
  QR_TRY(out->loaded_, load(model, std::move(file)));
  if (!out->loaded_.tokenizer) return fail(Code::unsupported, out->loaded_.path + " has no tokenizer");
  serve.models = {out->model()};
  QR_TRY_VOID(check_adapters(adapters, serve.models, serve.limits));
  QR_TRY(out->adapters_, load_adapters(adapters, model, out->loaded_, serve.limits));
  serve.adapters = out->adapters_.get();
  EngineEnv env;
  env.clock = &out->clock_;
  env.on_step_end = [signal = &out->signal_] { signal->fire(); };
  auto made = make_engine(*out->loaded_.model, *out->loaded_.ops, engine, env);
  if (!made) return tl::make_unexpected(in_option_names(std::move(made).error()));
  out->engine_ = std::move(*made);
  serve.port = 0;
  const std::string key = random_key();
  serve.keys = {plain_key("local", key, true, false)};
  serve.sampling = out->loaded_.sampling;
  serve.card = model_card(out->loaded_);
  out->engine_->start();
  QR_TRY(out->serving_, start_serving(serve, *out->engine_, *out->loaded_.tokenizer, out->metrics_, out->signal_));
  out->remote_ = {serve.host, out->serving_->port(), "", key};
  return out;
}

LocalServer::~LocalServer() {
  if (serving_) serving_->stop(0);
  if (engine_) engine_->stop();
}

}  // namespace quire
