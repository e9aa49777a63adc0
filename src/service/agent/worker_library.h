// Finds liblonghaul.so for workers that load the worker API at run time (the Python package).
#pragma once

#include <string>

namespace longhaul::service {

// Returns $LONGHAUL_LIBRARY if it is set, else liblonghaul.so beside this program, in ../worker_api
// (a build folder) or in ../lib (an installation); empty when there is none.
std::string FindWorkerLibrary();

// The same for a program in `directory` and this value of $LONGHAUL_LIBRARY (null: not set).
std::string FindWorkerLibraryFrom(const std::string& directory, const char* named);

}  // namespace longhaul::service
