# The simulation: sim_test (what runs on every commit) and sim (any number of seeds, by hand). They need the engine and
# what is below it, nothing above.
file(GLOB sim_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/sim/*.cc)
set(sim_tests ${sim_sources})
list(FILTER sim_tests INCLUDE REGEX "_test\\.cc$")
list(FILTER sim_sources EXCLUDE REGEX "(_test|_main)\\.cc$")

add_library(sim_world OBJECT ${sim_sources})
target_include_directories(sim_world PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(sim_world PUBLIC quire_options)

add_executable(sim_test ${sim_tests} $<TARGET_OBJECTS:sim_world>)
quire_link(sim_test engine)
target_link_libraries(sim_test PRIVATE quire_options GTest::gmock GTest::gtest_main)
target_include_directories(sim_test PRIVATE ${CMAKE_SOURCE_DIR})
add_test(NAME sim COMMAND sim_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})

add_executable(sim ${CMAKE_CURRENT_SOURCE_DIR}/sim/sim_main.cc $<TARGET_OBJECTS:sim_world>)
quire_link(sim engine)
target_link_libraries(sim PRIVATE quire_options)
target_include_directories(sim PRIVATE ${CMAKE_SOURCE_DIR})
