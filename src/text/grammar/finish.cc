// See finish.h.
#include "text/grammar/finish.h"

#include "text/grammar/automaton.h"

namespace quire::grammar {

Result<std::shared_ptr<const Grammar>> finish(NetworkBuilder& builder,
                                              RxStore& rx,
                                              Rule root,
                                              std::vector<std::string> warnings) {
  QR_TRY(Network net, builder.finish(root));
  SymbolClasses classes = SymbolClasses::of(rx, net.controls.size());
  rx.forget_derivatives();
  return std::make_shared<const Grammar>(
      Program{std::move(rx), std::move(net), std::move(classes), std::move(warnings)});
}

}  // namespace quire::grammar
