from tests.steps.model.quick_compilation import quick_compilation

__all__ = ["quick_compilation"]
