// The names of native functions, as calls in a stack that can be compared.
#pragma once

#include <string>
#include <string_view>

namespace longhaul::service {

// Returns the function's name without its parameters, its return type, the values of its template
// parameters and the suffixes of the compiler: "_ZN4gloo9allreduceERKNS_16AllreduceOptionsE" and
// "gloo::allreduce(gloo::AllreduceOptions const&)" are "gloo::allreduce". At most 96 printable
// characters. `symbol` may be any text: it is from a file of the worker.
std::string CallName(std::string_view symbol);

}  // namespace longhaul::service
