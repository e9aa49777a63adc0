// Where liblonghaul.so lies, for workers that load the worker API at run time (the Python package).
#pragma once

#include <string>

namespace longhaul::service {

// $LONGHAUL_LIBRARY when it is set, else liblonghaul.so beside this program, in ../worker_api (a
// build folder) or in ../lib (an installed one); empty when there is none.
std::string FindWorkerLibrary();

// The same for a program in `directory` and with this value of $LONGHAUL_LIBRARY (null: not set).
std::string FindWorkerLibraryFrom(const std::string& directory, const char* named);

}  // namespace longhaul::service
