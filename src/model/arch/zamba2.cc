// Zamba 2: Mamba-2 in every layer; some read besides what one of few shared blocks finds, of attention and a unit one
// behind the other. A block reads the residual stream and the embedding side by side, and each of its uses has low
// ranks of its own beside the block's matrices. GGUF has no architecture of this name: its files are what
// `quire quantize` makes of a folder. Source: Glorioso et al. 2024, "The Zamba2 Suite" (arXiv:2411.15242).
#include <algorithm>
#include <cmath>

#include "model/arch/mamba2.h"
#include "model/layer_kinds.h"
#include "ops/parts.h"

namespace quire {
namespace {

constexpr float kMixedEps = 1e-5F;    // of the norms of what a scan found, whatever the others have
constexpr double kLeastStep = 0.001;  // of a scan, where the folder does not say

// A block, which the layers that use it share.
struct SharedBlock {
  Tensor norm;              // [2 · n_embd], of what it reads
  std::vector<Linear> qkv;  // 2 · n_embd → heads
  std::vector<Linear> out;  // n_heads · v_dim → n_embd
  Tensor unit_norm;         // [n_embd]
  std::vector<Linear> gate_up, down;
};

// What a use adds to a product: B·(A·x).
struct LowRankPair {
  std::vector<Linear> a, b;
};

// One layer's use of a block.
struct BlockUse {
  const SharedBlock* block = nullptr;  // none: the layer has Mamba-2 alone
  LowRankPair q, k, v, gate_up;        // only some have the first three
  std::vector<Linear> linear;          // n_embd → n_embd, behind the block
};

class Zamba2 final : public Decoder {
 public:
  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override;

 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override;
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override;
  void load_more(WeightLoader& load) override;
  void run_layer(const DecoderLayer& layer,
                 NormedRows& in,
                 Tensor delta,
                 const Rotation& rotation,
                 const Pass& pass) const override;

 private:
  void load_block(WeightLoader& load, SharedBlock& block) const;
  void load_use(WeightLoader& load, size_t n_before, BlockUse& use) const;
  // out [n, n_embd]: what the use's block finds of x [n, n_embd].
  void run_use(
      const Tensor& out, const DecoderLayer& layer, const Tensor& x, const Rotation& rotation, const Pass& pass) const;
  void run_attention(const Tensor& out,
                     const DecoderLayer& layer,
                     const Tensor& read,
                     const Rotation& rotation,
                     const Pass& pass) const;
  void run_unit(const Tensor& x, const BlockUse& use, const Pass& pass) const;
  const BlockUse& use_of(const DecoderLayer& layer) const { return uses_[static_cast<size_t>(number_of(layer))]; }

  std::vector<SharedBlock> blocks_;
  std::vector<BlockUse> uses_;  // by layer
  bool has_attention_adapters_ = false;
};

// What is said of low ranks beside queries, keys and values is so.
Status check_adapters(const ModelFile& file, const std::string& prefix, const DecoderConfig& c) {
  const auto first = std::ranges::find(c.attends, true) - c.attends.begin();
  const std::string name = "blk." + std::to_string(first) + ".adapter_q_a.0.weight";
  const bool has = file.find(name) != nullptr;
  QR_TRY(const bool said, file.meta.get_bool_or(prefix + "shared_attention_adapter", has));
  if (said == has || c.n_shared_blocks == 0) return {};
  return fail(Code::corrupt, "key " + file.meta.shown(prefix + "shared_attention_adapter") + ": is " +
                                 (said ? "true" : "false") + ", and tensor " + file.shown(name) +
                                 (has ? " is there" : " is missing"));
}

// Blocks are of layers that are alike.
Status check_heads(const Metadata& meta, const std::string& prefix, const DecoderConfig& c) {
  if (c.window > 0) {
    return fail(Code::unsupported, "key " + meta.shown(prefix + "attention.sliding_window") + ": must be 0, is " +
                                       std::to_string(c.window));
  }
  if (c.v_dim == c.head_dim) return {};
  return fail(Code::unsupported, "key " + meta.shown(prefix + "attention.value_length") + ": must be " +
                                     std::to_string(c.head_dim) + " as keys are, is " + std::to_string(c.v_dim));
}

Status Zamba2::configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const {
  const Metadata& meta = file.meta;
  if (c.n_heads == 0) {
    return fail(Code::unsupported, "key " + meta.shown(prefix + "attention.head_count") + ": must be 1 at least, is 0");
  }
  QR_TRY_VOID(check_heads(meta, prefix, c));
  const auto n = static_cast<size_t>(c.n_layers);
  c.attends.assign(n, true);
  for (size_t l = 0; l < c.is_state.size(); ++l) c.attends[l] = !c.is_state[l];
  c.is_state.assign(n, true);
  c.has_unit.assign(n, false);  // the blocks have
  const auto n_uses = std::ranges::count(c.attends, true);
  QR_TRY(const int64_t n_blocks, meta.get_int_or(prefix + "shared_block_count", 1, 4096, 1));
  c.n_shared_blocks = static_cast<int>(std::min<int64_t>(n_blocks, n_uses));
  QR_TRY_VOID(check_adapters(file, prefix, c));
  c.activation = Activation::gelu_erf;
  c.attn_scale = static_cast<float>(1.0 / std::sqrt(c.head_dim / 2.0));
  QR_TRY_VOID(read_turns(file, prefix, 0, c));
  QR_TRY_VOID(read_state_config(file, prefix, c));
  QR_TRY(const double least, meta.get_double_or(prefix + "ssm.least_step", 0.0, 1e3, kLeastStep));
  c.state.least_step = static_cast<float>(least);
  c.state.norm_eps = kMixedEps;
  return {};
}

void Zamba2::load_layer(WeightLoader& load, DecoderLayer& layer) const {
  load.vector(layer.attn_norm, "attn_norm.weight", config().n_embd);
  load_state_mixer(load, config(), layer.state);
}

void Zamba2::load_block(WeightLoader& load, SharedBlock& block) const {
  const DecoderConfig& c = config();
  const int64_t n_read = 2 * int64_t{c.n_embd};
  load.vector(block.norm, "shared_norm.weight", n_read);
  load.linear(block.qkv, "attn_q", q_dim(), n_read);
  load.linear(block.qkv, "attn_k", kv_dim(), n_read);
  load.linear(block.qkv, "attn_v", kv_dim(), n_read);
  load.linear(block.out, "attn_output", c.n_embd, q_dim());
  load.vector(block.unit_norm, "ffn_norm.weight", c.n_embd);
  load.halves(block.gate_up, "ffn_gate_up", c.n_ff, c.n_embd);
  load.linear(block.down, "ffn_down", c.n_embd, c.n_ff);
}

// The loader has entered the layer that holds the block. n_before: uses of any block before this one.
void Zamba2::load_use(WeightLoader& load, size_t n_before, BlockUse& use) const {
  const DecoderConfig& c = config();
  const int64_t n_read = 2 * int64_t{c.n_embd};
  const auto pair = [&](LowRankPair& out, const std::string& name, int64_t n_out, int64_t n_in) {
    const std::string a = name + "_a." + std::to_string(n_before), b = name + "_b." + std::to_string(n_before);
    const int64_t rank = load.extent(a + ".weight", 0);
    load.linear(out.a, a, rank, n_in);
    load.linear(out.b, b, n_out, rank);
  };
  if (has_attention_adapters_) {
    pair(use.q, "adapter_q", q_dim(), n_read);
    pair(use.k, "adapter_k", kv_dim(), n_read);
    pair(use.v, "adapter_v", kv_dim(), n_read);
  }
  pair(use.gate_up, "adapter_ff", 2 * int64_t{c.n_ff}, c.n_embd);
}

void Zamba2::load_more(WeightLoader& load) {
  const DecoderConfig& c = config();
  blocks_.resize(static_cast<size_t>(c.n_shared_blocks));
  uses_.resize(static_cast<size_t>(c.n_layers));
  std::vector<std::string> homes;  // of the blocks: the first layers that use them
  size_t n_uses = 0;
  for (size_t l = 0; l < uses_.size() && load.status(); ++l) {
    if (!c.attends[l]) continue;
    const std::string own = "blk." + std::to_string(l) + ".";
    const size_t b = n_uses % blocks_.size();
    uses_[l].block = &blocks_[b];
    load.enter(own);
    load.linear(uses_[l].linear, "shared_output", c.n_embd, c.n_embd);
    if (b == homes.size()) {
      homes.push_back(own);
      load_block(load, blocks_[b]);
      if (b == 0) has_attention_adapters_ = load.has("adapter_q_a.0.weight");
    }
    load.enter(homes[b]);
    load_use(load, n_uses++, uses_[l]);
  }
  load.enter("");
}

int64_t Zamba2::arena_bytes(int64_t n_tokens, int64_t n_out) const {
  const DecoderConfig& c = config();
  int64_t rank = 0, scratch = 0;
  for (const BlockUse& use : uses_) {
    for (const LowRankPair* pair : {&use.q, &use.k, &use.v, &use.gate_up}) {
      if (!pair->a.empty()) rank = std::max(rank, pair->a.front().n_out);
    }
  }
  scratch = Arena::row_stride(q_dim() + 2 * kv_dim() + q_dim()) + Arena::row_stride(std::max(q_dim(), kv_dim()));
  const int64_t unit = 2 * Arena::row_stride(2 * int64_t{c.n_ff});
  const int64_t row = Arena::row_stride(2 * int64_t{c.n_embd}) + 3 * Arena::row_stride(c.n_embd) + 1 +
                      Arena::row_stride(rank) + std::max(scratch, unit);
  return Decoder::arena_bytes(n_tokens, n_out) + n_tokens * row * 4 + 8 * Arena::kAlign;
}

// y += B·(A·x).
void add_pair(const Tensor& y, const Tensor& x, const LowRankPair& pair, const Pass& pass) {
  if (pair.a.empty()) return;
  const auto mark = pass.arena->mark();
  const Tensor low = pass.arena->alloc_rows(x.dim(0), pair.a.front().n_out);  // [n, rank]
  const Tensor found = pass.arena->alloc_rows(x.dim(0), y.dim(1));            // as y
  pass.ops->linear(low, x, pair.a);
  pass.ops->linear(found, low, pair.b);
  pass.ops->add(y, found);
  pass.arena->release(mark);
}

void Zamba2::run_attention(const Tensor& out,
                           const DecoderLayer& layer,
                           const Tensor& read,
                           const Rotation& rotation,
                           const Pass& pass) const {
  const BlockUse& use = use_of(layer);
  const AttnParams& heads = layer.attn;
  const auto mark = pass.arena->mark();
  const AttentionScratch at(pass.arena->alloc_rows(read.dim(0), 2 * q_dim() + 2 * kv_dim()), heads);
  pass.ops->linear(at.qkv, read, use.block->qkv);
  add_pair(at.q, read, use.q, pass);
  add_pair(at.k, read, use.k, pass);
  add_pair(at.v, read, use.v, pass);
  if (!rotation.rows.empty()) pass.ops->rope(at.qk, rotation.rows, heads.k_dim, config().rope_pairs);
  write_kv(at.k, at.v, pass, heads);
  AttnMeta meta = pass.batch->attn;
  if (heads.n_kept > 0) meta.kept_rotation = rotation.kept;
  pass.ops->attend(at.mixed, at.q, pass.kv, meta, heads);
  pass.ops->linear(out, at.mixed, use.block->out);
  pass.arena->release(mark);
}

// x [n, n_embd] becomes what the unit finds of it.
void Zamba2::run_unit(const Tensor& x, const BlockUse& use, const Pass& pass) const {
  const auto mark = pass.arena->mark();
  const Tensor hidden = pass.arena->alloc_rows(x.dim(0), 2 * int64_t{config().n_ff});  // [n, gate | up]
  const FeedForwardScratch at(hidden, true);
  pass.ops->rms_norm(x, x, use.block->unit_norm, config().norm_eps);
  pass.ops->linear(hidden, x, use.block->gate_up);
  add_pair(hidden, x, use.gate_up, pass);
  pass.ops->gated(at.hidden, at.gate, at.up, config().activation);
  pass.ops->linear(x, at.hidden, use.block->down);
  pass.arena->release(mark);
}

void Zamba2::run_use(
    const Tensor& out, const DecoderLayer& layer, const Tensor& x, const Rotation& rotation, const Pass& pass) const {
  const BlockUse& use = use_of(layer);
  const int64_t n = x.dim(0), d = config().n_embd;
  const auto mark = pass.arena->mark();
  const Tensor read = pass.arena->alloc_rows(n, 2 * d);  // [n, stream | embedding]
  const Tensor found = pass.arena->alloc_rows(n, d);     // [n, n_embd]
  const Tensor ids = pass.arena->alloc(DType::i32, {n});
  const Tensor embedding = embed(pass);  // [n, n_embd]
  pass.ops->finish();
  for (int64_t i = 0; i < n; ++i) ids.ptr<int32_t>()[i] = static_cast<int32_t>(i);
  pass.ops->rows(read.columns(0, d), x, ids);
  pass.ops->rows(read.columns(d, d), embedding, ids);
  pass.ops->rms_norm(read, read, use.block->norm, config().norm_eps);
  run_attention(found, layer, read, rotation, pass);
  run_unit(found, use, pass);
  pass.ops->linear(out, found, use.linear);
  pass.arena->release(mark);
}

void Zamba2::run_layer(
    const DecoderLayer& layer, NormedRows& in, Tensor delta, const Rotation& rotation, const Pass& pass) const {
  settle(in, pass);
  NormedRows read = in;
  read.w = layer.attn_norm;
  const auto mark = pass.arena->mark();
  if (layer.attends) {
    read.x = pass.arena->alloc_rows(in.x.dim(0), config().n_embd);  // [n, n_embd]: the stream and what a block found
    run_use(read.x, layer, in.x, rotation, pass);
    pass.ops->add(read.x, in.x);
  }
  run_state_mixer(delta, layer.state, config().state, read, pass);
  pass.arena->release(mark);
  in.delta = delta;
}

// Which layers use a block: those of a kind of their own.
Status layer_facts(HfFacts& hf) {
  QR_TRY(const int64_t n_heads, hf.get_int("num_attention_heads", 1, 4096));
  QR_TRY(const int64_t n_kv_heads, hf.get_int_or("num_key_value_heads", 1, n_heads, n_heads));
  const std::string_view key = hf.find("layers_block_type") != nullptr ? "layers_block_type" : "layer_types";
  QR_TRY(const std::vector<std::string> kinds, layer_kinds(hf, key, {"hybrid", "mamba", "linear_attention"}));
  std::vector<int64_t> heads;
  heads.reserve(kinds.size());
  for (const std::string& kind : kinds) heads.push_back(kind == "hybrid" ? n_kv_heads : 0);
  hf.set("attention.head_count_kv", std::move(heads), key);
  return {};
}

Status attention_facts(HfFacts& hf) {
  QR_TRY(const int64_t n_embd, hf.get_int("hidden_size", 1, 1 << 20));
  QR_TRY(const int64_t n_heads, hf.get_int("num_attention_heads", 1, 4096));
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  QR_TRY(const bool turns, hf.get_bool_or("use_mem_rope", false));
  if (2 * n_embd % n_heads != 0) {
    return fail(Code::corrupt, "key \"num_attention_heads\": must divide twice the hidden_size, which is " +
                                   std::to_string(2 * n_embd) + ", is " + std::to_string(n_heads));
  }
  hf.set("attention.key_length", 2 * n_embd / n_heads, "num_attention_heads");
  hf.set(kTurns, std::vector<int64_t>(static_cast<size_t>(n_layers), turns ? 1 : 0), "use_mem_rope");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"gelu"}));
  QR_TRY_VOID(hf.require_bool("use_long_context", false));
  QR_TRY_VOID(layer_facts(hf));
  QR_TRY_VOID(attention_facts(hf));
  QR_TRY(const int64_t n_embd, hf.get_int("hidden_size", 1, 1 << 20));
  QR_TRY(const int64_t expand, hf.get_int_or("mamba_expand", 1, 64, 2));
  if (hf.find("intermediate_size") == nullptr) hf.set("feed_forward_length", 4 * n_embd, "intermediate_size");
  hf.copy({"num_mem_blocks"}, "shared_block_count");
  hf.copy({"use_shared_attention_adapter"}, "shared_attention_adapter");
  hf.copy({"mamba_d_conv"}, "ssm.conv_kernel");
  hf.copy({"mamba_d_state"}, "ssm.state_size");
  hf.copy({"n_mamba_heads"}, "ssm.time_step_rank");
  hf.copy({"mamba_ngroups"}, "ssm.group_count");
  hf.copy({"time_step_min"}, "ssm.least_step");
  hf.set("ssm.inner_size", expand * n_embd, "mamba_expand");
  return {};
}

// Of a block, and of what its uses add to it: "{}" is the layer, then the use.
constexpr NameRule kShared[] = {
    {"model.layers.{}.shared_transformer.input_layernorm.weight", "blk.{}.shared_norm.weight"},
    {"model.layers.{}.shared_transformer.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {"model.layers.{}.shared_transformer.self_attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {"model.layers.{}.shared_transformer.self_attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {"model.layers.{}.shared_transformer.self_attn.o_proj.weight", "blk.{}.attn_output.weight"},
    {"model.layers.{}.shared_transformer.pre_ff_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {"model.layers.{}.shared_transformer.feed_forward.gate_up_proj.weight", "blk.{}.ffn_gate_up.weight"},
    {"model.layers.{}.shared_transformer.feed_forward.gate_up_proj.bias", "blk.{}.ffn_gate_up.bias"},
    {"model.layers.{}.shared_transformer.feed_forward.down_proj.weight", "blk.{}.ffn_down.weight"},
    {"model.layers.{}.shared_transformer.feed_forward.down_proj.bias", "blk.{}.ffn_down.bias"},
    {"model.layers.{}.shared_transformer.feed_forward.gate_up_proj_adapter_list.{}.0.weight",
     "blk.{}.adapter_ff_a.{}.weight"},
    {"model.layers.{}.shared_transformer.feed_forward.gate_up_proj_adapter_list.{}.1.weight",
     "blk.{}.adapter_ff_b.{}.weight"},
    {"model.layers.{}.shared_transformer.self_attn.linear_q_adapter_list.{}.0.weight", "blk.{}.adapter_q_a.{}.weight"},
    {"model.layers.{}.shared_transformer.self_attn.linear_q_adapter_list.{}.1.weight", "blk.{}.adapter_q_b.{}.weight"},
    {"model.layers.{}.shared_transformer.self_attn.linear_k_adapter_list.{}.0.weight", "blk.{}.adapter_k_a.{}.weight"},
    {"model.layers.{}.shared_transformer.self_attn.linear_k_adapter_list.{}.1.weight", "blk.{}.adapter_k_b.{}.weight"},
    {"model.layers.{}.shared_transformer.self_attn.linear_v_adapter_list.{}.0.weight", "blk.{}.adapter_v_a.{}.weight"},
    {"model.layers.{}.shared_transformer.self_attn.linear_v_adapter_list.{}.1.weight", "blk.{}.adapter_v_b.{}.weight"},
    {"model.layers.{}.linear.weight", "blk.{}.shared_output.weight"},
    {"model.layers.{}.mamba_decoder.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {"model.final_layernorm.weight", "output_norm.weight"}};

constexpr NameRule kMixersOfUses[] = {
    {"model.layers.{}.mamba_decoder.mamba.in_proj.weight", "blk.{}.ssm_in.weight"},
    {"model.layers.{}.mamba_decoder.mamba.in_proj.bias", "blk.{}.ssm_in.bias"},
    {.theirs = "model.layers.{}.mamba_decoder.mamba.conv1d.weight",
     .ours = "blk.{}.ssm_conv1d.weight",
     .reshape = without_middle},
    {"model.layers.{}.mamba_decoder.mamba.conv1d.bias", "blk.{}.ssm_conv1d.bias"},
    {"model.layers.{}.mamba_decoder.mamba.dt_bias", "blk.{}.ssm_dt.bias"},
    {.theirs = "model.layers.{}.mamba_decoder.mamba.A_log", .ours = "blk.{}.ssm_a", .reshape = minus_exp},
    {.theirs = "model.layers.{}.mamba_decoder.mamba.D", .ours = "blk.{}.ssm_d", .reshape = as_column},
    {"model.layers.{}.mamba_decoder.mamba.norm.weight", "blk.{}.ssm_norm.weight"},
    {"model.layers.{}.mamba_decoder.mamba.out_proj.weight", "blk.{}.ssm_out.weight"},
    {"model.layers.{}.mamba_decoder.mamba.out_proj.bias", "blk.{}.ssm_out.bias"}};

std::vector<NameRule> tensors() {
  std::vector<NameRule> out = mamba2_mixer_tensors({std::begin(kShared), std::end(kShared)});
  out.insert(out.end(), std::begin(kMixersOfUses), std::end(kMixersOfUses));
  return out;
}

QR_REGISTER(ArchEntry,
            "zamba2",
            ArchEntry{.summary = "Zamba 2: Mamba-2 in every layer, few blocks of attention that layers share",
                      .no_gguf = "GGUF has no name for it",
                      .hf = {.model_types = {"zamba2"}, .tensors = tensors(), .facts = facts, .lists_parts = true},
                      .load = &load_decoder<Zamba2>,
                      .info = &decoder_info<Zamba2>});

}  // namespace
}  // namespace quire
