// An EAGLE head guesses (Li et al. 2024, 2025): one decoder layer that goes on from the target's own states, read
// behind some of its layers or its last norm, token after token. It takes the likeliest of those tokens that it knows
// (spec/head_chain.h).
#include "model/eagle.h"

#include <string>

#include "spec/eagle_pass.h"
#include "spec/head_chain.h"

namespace quire {
namespace {

HeadPassSize size_of(const ProposerEnv& env) { return HeadChain::size_of(env, env.n_ctx); }

int64_t bytes(const ProposerOptions&, const ProposerEnv& env) { return EaglePass::bytes(*env.eagle, size_of(env)); }

Status check(const ProposerEnv& env) {
  if (env.eagle == nullptr) return fail(Code::invalid, "the proposer \"eagle\" needs a head");
  const ModelInfo& info = env.target->info();
  if (info.scales_embedding && !env.eagle->embedding) {
    return fail(Code::unsupported, "an EAGLE head reads embeddings as they are, and a " + info.arch +
                                       " model changes its own: the head needs \"embed_tokens.weight\"");
  }
  return {};
}

Result<std::unique_ptr<Proposer>> make(const ProposerOptions& options, const ProposerEnv& env) {
  QR_TRY_VOID(check(env));
  QR_TRY(Buffer memory, env.ops->allocate_arena(bytes(options, env)));
  const HeadPassSize size = size_of(env);
  return HeadChain::make(
      {.max_draft = options.max_draft, .max_side = options.max_side, .n_blocks = env.n_blocks, .size = size},
      env.eagle->kv_layout, std::make_unique<EaglePass>(*env.eagle, *env.target, *env.ops, size, std::move(memory)),
      *env.ops);
}
QR_REGISTER(ProposerEntry, "eagle", {make, bytes});

}  // namespace
}  // namespace quire
