// Python's two string formatters: "%s" % values and "{}".format(values). The result counts as the user's as a whole
// when the format or any argument does.
#pragma once
#include "text/jinja/builtins.h"
#include "text/jinja/context.h"
#include "text/jinja/value.h"

namespace quire::jinja {

// %s %r %d %i %u %f %F %e %g %x %X %o %c %% with flags, width and precision; %(name)s from a dict.
bool format_percent(Context& in, const Str& format, const Value& values, Value& out);
// {} {0} {name} with !r !s, and :[[fill]align][sign][0][width][,][.precision][type].
bool format_braces(
    Context& in, const Str& format, std::span<const Value> args, std::span<const Named> named, Value& out);

}  // namespace quire::jinja
