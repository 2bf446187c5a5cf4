"""Programs for aiokafka, which `test_compat_aiokafka.py` runs on aiokafka and on ottla. They print what they see."""
