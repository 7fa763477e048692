// An engine that tells of its blocks.
#pragma once
#include <memory>

#include "engine/engine.h"
#include "kv/block_watcher.h"

namespace quire {

// As make_engine. `watcher`, which may be null, outlives the engine; it hears of nothing without a prefix cache.
Result<std::unique_ptr<Engine>> make_watched_engine(
    const Model& model, Ops& ops, EngineOptions options, EngineEnv env, BlockWatcher* watcher);

}  // namespace quire
