// Proposers beside each other, the one that knows best first. Each sequence is asked for at the first that has
// something for it; what it says is marked with that one's place (Draft::by). Engine thread.
#pragma once
#include <memory>
#include <string_view>

#include "spec/proposer.h"
#include "spec/proposer_names.h"

namespace quire {

// Makes those of a list. Code::invalid names one that is unknown or there twice, more than kMostProposers, or what one
// of them lacks.
Result<std::unique_ptr<Proposer>> make_proposers(std::string_view list,
                                                 const ProposerOptions& options,
                                                 const ProposerEnv& env);
// Memory that those of a list allocate when they are made, without the blocks of caches (ProposerEntry::bytes). Names
// that make_proposers refuses count nothing.
int64_t proposer_bytes(std::string_view list, const ProposerOptions& options, const ProposerEnv& env);

}  // namespace quire
